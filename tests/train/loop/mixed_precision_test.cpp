// --precision in the training loop: overflow, agreement of ranks, resume, every strategy.
#include <algorithm>
#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/train/classifier/classifier_task.h"
#include "muster/train/loop/evaluate.h"
#include "muster/train/plan/placement.h"
#include "muster/train/replicas/sharded_optimizer.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/loop/mixed_run.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using tensor::NamedTensorList;
using test::expect_same_state;
using test::kHalf;
using test::Ran;
using test::refusal_of;
using test::run_mixed;
using test::small_run;
using ::testing::AllOf;
using ::testing::HasSubstr;

train::TrainPlan plan_for(train::TrainOptions options, int64_t ranks = 1) {
  const train::TrainData data = train::open_data(options.data, {});
  return train::resolve(options,
                        {.world_size = ranks,
                         .local_world_size = ranks,
                         .cores = 2,
                         .intraop_threads = std::max<int64_t>(
                             1, train::parse_devices(options.devices).count)},  // one each
                        *data.train,
                        *data.test);
}

train::TrainPlan plan_with(const std::string& precision) {
  train::TrainOptions options = small_run();
  options.precision = precision;
  return plan_for(options);
}

train::LossScaler scaler_of(const std::string& precision, const ProcessGroup& group) {
  const auto [name, params] = parse_spec(precision);
  return {train::parse_precision(name, params), group};
}

TEST(Precision, IsExplainedAndItsMistakesGetOneClearError) {
  EXPECT_THAT(train::explain(plan_with("32")), HasSubstr("\nprecision     32: float32\n"));
  EXPECT_THAT(train::explain(plan_with("bf16-mixed")),
              HasSubstr("\nprecision     bf16-mixed: autocast to bfloat16; weights, gradients"));
  EXPECT_THAT(train::explain(plan_with("16-mixed:init_scale=1024")),
              AllOf(HasSubstr("autocast to float16"), HasSubstr("loss scale 1024 at first")));
  EXPECT_EQ(refusal_of([] { plan_with("bf16"); }),
            "--precision: 32 or bf16-mixed or 16-mixed (got bf16)\nhint: did you mean "
            "\"bf16-mixed\"?");
  EXPECT_THAT(refusal_of([] { plan_with("bf16-mixed:init_scale=2"); }), HasSubstr("no parameter"));
  EXPECT_THAT(refusal_of([] { plan_with("16-mixed:init_scale=inf"); }), HasSubstr("init_scale"));
  EXPECT_THAT(refusal_of([] { plan_with("16-mixed:growth_factor=1"); }),
              HasSubstr("--precision 16-mixed: growth_factor: above 1 (got 1)"));
  EXPECT_THAT(refusal_of([] { plan_with("16-mixed:backoff_factor=1"); }),
              HasSubstr("backoff_factor: between 0 and 1 (got 1)"));
  EXPECT_THAT(refusal_of([] { plan_with("16-mixed:growth_interval=0"); }),
              HasSubstr("--precision 16-mixed: growth_interval: at least 1 (got 0)"));
}

TEST(Precision, StaysAsItWasOnResume) {
  const Json before = train::to_json(plan_with("16-mixed:growth_interval=9"));
  train::TrainOptions silent = small_run(), other = small_run();
  train::take_over(before, {}, silent);
  EXPECT_EQ(silent.precision, "16-mixed:growth_interval=9");
  other.precision = "bf16-mixed";
  EXPECT_THAT(refusal_of([&] { train::take_over(before, {"precision"}, other); }),
              HasSubstr("precision was 16-mixed:growth_interval=9, now bf16-mixed"));
}

TEST(Precision, MixedIsRefusedWhereWeightsAreBfloat16) {
  train::TrainOptions options = small_run();
  options.strategy = "zero2:dtype=bfloat16";
  const test::Folder folder;
  EXPECT_THAT(refusal_of([&] { run_mixed("bf16-mixed", options, 1, folder.path()); }),
              HasSubstr("--precision bf16-mixed: mixed precision keeps weights"));
}

/// oneDNN's needs AVX-512 for it; Python's autocast fails alike where that is missing.
bool lstm_runs_in_bfloat16() try {
  const train::PrecisionGuard guard(train::Precision::kBfloat16Mixed, torch::kCPU);
  const torch::NoGradGuard no_grad;
  torch::nn::LSTM(4, 4)->forward(torch::ones({2, 2, 4}));
  return true;
} catch (const std::exception& error) {
  if (std::string_view(error.what()).find("could not create a primitive") == std::string::npos)
    throw;
  return false;
}

class MixedModels : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(MixedModels, TrainAndKeepFloat32WeightsAndState) {
  const std::string model = std::get<0>(GetParam());
  if (model.starts_with("lstm") && !lstm_runs_in_bfloat16()) GTEST_SKIP() << "not on this CPU";
  train::TrainOptions options = small_run();
  options.model = model;
  options.optimizer = "adamw";
  options.lr = 0.003;
  const test::Folder mixed_folder, plain_folder;
  const Ran mixed = run_mixed(std::get<1>(GetParam()), options, 1, mixed_folder.path());
  const Ran plain = run_mixed("32", options, 1, plain_folder.path());
  for (const auto& [name, tensor] : mixed.last.model)
    EXPECT_TRUE(tensor.scalar_type() != torch::kHalf && tensor.scalar_type() != torch::kBFloat16)
        << name;
  EXPECT_GT(test::model_difference(mixed.last, plain.last), 0) << "nothing ran in 16 bits";
  EXPECT_NEAR(mixed.result.test.metrics["loss"], plain.result.test.metrics["loss"], 0.1);
}

constexpr const char* kTransformer =
    "transformer:width=16,heads=2,feedforward=16,layers=1,patch=4,dropout=0";

// Without lstm in float16, which oneDNN does not have: Python's autocast fails alike.
INSTANTIATE_TEST_SUITE_P(Zoo,
                         MixedModels,
                         ::testing::Values(std::tuple{"mlp:hidden=16", "bf16-mixed"},
                                           std::tuple{"mlp:hidden=16", "16-mixed"},
                                           std::tuple{"cnn:width=4,hidden=16", "bf16-mixed"},
                                           std::tuple{"cnn:width=4,hidden=16", "16-mixed"},
                                           std::tuple{"lstm:hidden=8", "bf16-mixed"},
                                           std::tuple{kTransformer, "bf16-mixed"},
                                           std::tuple{kTransformer, "16-mixed"}));

class MixedResume
    : public ::testing::TestWithParam<std::tuple<const char*, int, const char*, int>> {};

TEST_P(MixedResume, EndsBitEqualToAnUnbrokenRunScaleIncluded) {
  const auto& [strategy, world, precision, steps] = GetParam();
  train::TrainOptions options = small_run();
  options.strategy = strategy;
  options.optimizer = "adamw";
  options.batch_size = 18;
  const test::Folder whole_folder, broken_folder;
  const Ran whole = run_mixed(precision, options, world, whole_folder.path());
  const Ran broken = run_mixed(precision, options, world, broken_folder.path(), {}, steps);
  ASSERT_TRUE(broken.result.interrupted);
  const Ran resumed =
      run_mixed(precision, options, world, broken_folder.path(), broken.result.checkpoint);
  expect_same_state(resumed.last, whole.last);
  EXPECT_EQ(resumed.last.loop.at("scaler"), whole.last.loop.at("scaler"));
  EXPECT_EQ(resumed.result.skipped_steps, whole.result.skipped_steps);
  EXPECT_EQ(resumed.result.test.metrics["loss"], whole.result.test.metrics["loss"]);
  if (precision == kHalf) {
    EXPECT_GT(*whole.result.skipped_steps, 1);
    EXPECT_NE(broken.last.loop.at("scaler"), whole.last.loop.at("scaler"));
  }
}

// 1: in the middle of the overflows; 7 and 18: between the growths of the scale.
INSTANTIATE_TEST_SUITE_P(Runs,
                         MixedResume,
                         ::testing::Values(std::tuple{"single", 1, kHalf, 1},
                                           std::tuple{"single", 1, kHalf, 7},
                                           std::tuple{"single", 1, "bf16-mixed", 7},
                                           std::tuple{"ddp", 2, kHalf, 18},
                                           std::tuple{"ddp", 3, kHalf, 7},
                                           std::tuple{"zero1", 2, kHalf, 7},
                                           std::tuple{"zero2", 2, kHalf, 7}));

/// The loop's results of all ranks.
std::vector<train::FitResult> run_all(const train::TrainOptions& options,
                                      int world,
                                      const std::filesystem::path& output) {
  std::vector<train::FitResult> results(static_cast<size_t>(world));
  run_ranks(world, [&](ProcessGroup group) {
    const train::TrainData data = train::open_data(options.data, {});
    results[static_cast<size_t>(group.rank())] =
        train::train(plan_for(options, world), data, group, output, std::nullopt, {});
  });
  return results;
}

TEST(MixedOverflow, IsLeftOutByAllRanksTogetherAndCountedByThePositionButNotByAdam) {
  for (const char* strategy : {"ddp", "zero1", "zero2", "fsdp", "pipeline:micro_batches=2"}) {
    train::TrainOptions options = small_run();
    options.strategy = strategy;
    options.optimizer = "adamw";
    options.lr = 0.01;
    options.gradient_clip_val = 0.5;
    options.precision = "16-mixed:init_scale=1e30,backoff_factor=0.001";
    const test::Folder folder;
    const auto results = run_all(options, 2, folder.path());
    ASSERT_TRUE(results[0].skipped_steps);
    EXPECT_GT(*results[0].skipped_steps, 5) << strategy;
    EXPECT_EQ(results[0].skipped_steps, results[1].skipped_steps) << strategy;
    const train::Checkpoint last = train::read_checkpoint(results[0].checkpoint);
    EXPECT_EQ(last.position.step, plan_for(options, 2).total_steps);
    int64_t made = -1;
    for (const auto& [name, tensor] : last.optimizer) {
      if (name.starts_with("step/")) made = tensor.item<int64_t>();
    }
    EXPECT_EQ(made + *results[0].skipped_steps, last.position.step) << strategy;
    EXPECT_GT(results[0].test.metrics["accuracy"], 0.5) << strategy;
  }
}

TEST(MixedOverflow, NanThatStaysStopsAllRanksAtTheFloorOfTheScale) {
  train::TrainOptions options = small_run();
  options.lr = 1e30;  // after one step no loss is finite any more
  options.precision = "16-mixed:init_scale=4";
  const test::Folder folder;
  std::vector<std::string> errors(2);
  run_ranks(2, [&](ProcessGroup group) {
    const train::TrainData data = train::open_data(options.data, {});
    errors[static_cast<size_t>(group.rank())] = refusal_of(
        [&] { train::train(plan_for(options, 2), data, group, folder.path(), std::nullopt, {}); },
        ErrorKind::kEnvironment);
  });
  EXPECT_EQ(errors[0], errors[1]);
  // 4 in steps 1 and 2, then 2, 1, and 0.5 is below the floor.
  EXPECT_THAT(errors[0], HasSubstr("the loss is not finite in step 4 (epoch 1)"));
  EXPECT_THAT(errors[0], HasSubstr("(got NaN or infinity at every loss scale down to 1)"));
  EXPECT_THAT(errors[0], HasSubstr("--precision bf16-mixed"));
}

TEST(MixedOverflow, NanStopsBfloat16AtOnce) {
  train::TrainOptions options = small_run();
  options.lr = 1e30;
  const test::Folder folder;
  EXPECT_THAT(refusal_of([&] { run_mixed("bf16-mixed", options, 1, folder.path()); },
                         ErrorKind::kEnvironment),
              HasSubstr("the loss is not finite in step 2 (epoch 1)"));
}

TEST(LossScaler, AnInfiniteLossLeavesTheStepOutThoughGradientsAreFinite) {
  run_ranks(2, [](ProcessGroup group) {
    torch::Tensor weight = torch::ones({3}).requires_grad_();
    const auto sgd = optim::optimizers().at("sgd").make({{"w", weight}}, 1, {});
    train::LossScaler scaler = scaler_of("16-mixed:init_scale=8", group);
    const auto step = [&](bool finite) {
      sgd->zero_grad();
      scaler.scale(weight.sum()).backward();
      return scaler.step(*sgd, finite, [&] { sgd->step(); });
    };
    EXPECT_FALSE(step(false));
    EXPECT_TRUE(torch::equal(weight, torch::ones({3})));
    EXPECT_EQ(scaler.scale(), 4);
    EXPECT_TRUE(step(true));
    EXPECT_TRUE(torch::equal(weight, torch::zeros({3})));
  });
}

// In stage 2 a rank sees its shard alone: only one of two sees the gradient that is infinite.
TEST(LossScaler, ShardsAgreeOnAnOverflowThatOneRankSees) {
  run_ranks(2, [](ProcessGroup group) {
    torch::nn::Sequential net(torch::nn::Linear(4, 4));
    parallel::ShardedDataParallel zero(net, group, {.stage = 2});
    const train::OptimizerMaker make = [](NamedTensorList shard) {
      return optim::optimizers().at("sgd").make(std::move(shard), 0.1, {});
    };
    train::ShardedOptimizer optimizer(zero.core(), make, 0.1);
    train::LossScaler scaler = scaler_of("16-mixed:init_scale=8", group);
    const torch::Tensor before = net->parameters()[0].detach().clone();
    const auto step = [&](float first) {
      optimizer.zero_grad();
      torch::Tensor factors = torch::ones({4, 4});
      factors[0][0] = first;
      const auto parameters = net->parameters();
      scaler.scale((parameters[0] * factors).sum() + parameters[1].sum()).backward();
      torch::Tensor finite = torch::ones({}, torch::kLong);
      for (const torch::Tensor& own : optimizer.parameters())
        finite *= own.grad().isfinite().all().to(torch::kLong);
      group.all_reduce(finite);
      EXPECT_EQ(finite.item<int64_t>(), std::isfinite(first) ? 2 : 1);
      return scaler.step(optimizer, true, [&] { optimizer.step(); });
    };
    EXPECT_FALSE(step(std::numeric_limits<float>::infinity()));
    EXPECT_TRUE(torch::equal(net->parameters()[0], before));
    EXPECT_EQ(scaler.scale(), 4);
    EXPECT_TRUE(step(1));
    EXPECT_LT((net->parameters()[0] - (before - 0.1)).abs().max().item<double>(), 1e-6);
    EXPECT_EQ(scaler.skipped_steps(), 1);
  });
}

TEST(MixedStrategies, TrainTheSameModelBitForBitAndOneRanksWithinRounding) {
  for (const char* precision : {"bf16-mixed", kHalf}) {
    train::TrainOptions options = small_run();
    options.model = "mlp:hidden=16";
    options.optimizer = "adamw";
    // A gradient at the edge of float16 may overflow on one rank and not in the shares of two; these
    // samples have none.
    options.validation_split = "tail";
    const test::Folder one_folder, ddp_folder;
    const Ran one = run_mixed(precision, options, 1, one_folder.path());
    options.strategy = "ddp";
    const Ran ddp = run_mixed(precision, options, 2, ddp_folder.path());
    EXPECT_LE(test::model_difference(one.last, ddp.last), 2e-3) << precision;
    EXPECT_EQ(one.last.loop.at("scaler"), ddp.last.loop.at("scaler"));
    for (const char* strategy : {"zero1", "zero2"}) {
      options.strategy = strategy;
      const test::Folder zero_folder;
      const Ran zero = run_mixed(precision, options, 2, zero_folder.path());
      expect_same_state(zero.last, ddp.last);
      EXPECT_EQ(zero.last.loop.at("scaler"), ddp.last.loop.at("scaler"));
    }
  }
}

TEST(MixedStrategies, DpTrainsWhatDdpTrains) {
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=16";
  const test::Folder dp_folder, ddp_folder;
  const Ran ddp = run_mixed(kHalf, options, 2, ddp_folder.path());
  options.precision = kHalf;
  options.strategy = "dp";
  options.devices = "2";
  const train::FitResult dp = train::train_on_threads(
      plan_for(options), train::open_data(options.data, {}), dp_folder.path(), std::nullopt, {});
  EXPECT_GT(*dp.skipped_steps, 1);
  expect_same_state(train::read_checkpoint(dp.checkpoint), ddp.last);
}

TEST(MixedStrategies, AccumulateAndClipScaledGradientsAsUnscaledOnes) {
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=16";
  options.accumulate_grad_batches = 2;
  options.gradient_clip_val = 0.1;
  const test::Folder plain_folder;
  const Ran plain = run_mixed("32", options, 1, plain_folder.path());
  for (const char* strategy : {"ddp", "zero1", "zero2", "fsdp", "pipeline:micro_batches=2"}) {
    options.strategy = strategy;
    const test::Folder folder;
    const Ran mixed = run_mixed("16-mixed:init_scale=1024", options, 2, folder.path());
    EXPECT_LE(test::model_difference(mixed.last, plain.last), 1e-3) << strategy;
  }
}

TEST(MixedEvaluation, RunsInTheDtypeOfTheTraining) {
  const train::TrainPlan plan = plan_with("bf16-mixed");
  const train::TrainData data = train::open_data(plan.options.data, {});
  torch::manual_seed(0);
  const auto model = models::make_model("mlp", plan.model_shape, {});
  train::ClassifierTask task(model, {});
  run_ranks(1, [&](ProcessGroup group) {
    const auto loss = [&](train::Precision precision) {
      return train::evaluate(task, data.test, group, {.precision = precision}).metrics["loss"];
    };
    const auto samples = static_cast<size_t>(data.test->size());
    std::vector<int64_t> all(samples);
    std::iota(all.begin(), all.end(), 0);
    const data::Batch batch = data.test->get(all, {});
    const torch::NoGradGuard no_grad;
    torch::Tensor expected;
    {
      const parallel::AutocastGuard autocast(torch::kCPU);
      expected =
          torch::nn::functional::cross_entropy(model->forward(batch["data"]), batch["target"]);
    }
    EXPECT_EQ(expected.scalar_type(), torch::kFloat);
    EXPECT_NEAR(loss(train::Precision::kBfloat16Mixed), expected.item<double>(), 1e-6);
    EXPECT_NE(loss(train::Precision::kBfloat16Mixed), loss(train::Precision::kFloat32));
  });
}

}  // namespace
}  // namespace muster
