// --ema-decay: the averages themselves against torch.optim.swa_utils, and a run that keeps them.
#include "muster/train/loop/weight_average.h"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/train/checkpoints/model_state.h"
#include "muster/train/checkpoints/saved_weights.h"
#include "muster/train/classifier/asked_classifier.h"
#include "muster/train/loop/evaluate.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/golden.h"
#include "tests/train/small_run.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using distributed::ProcessGroup;
using test::expect_same_state;
using test::model_difference;
using test::Ran;
using test::refusal_of;
using test::run;
using test::small_run;
using ::testing::HasSubstr;
using Tensors = std::map<std::string, torch::Tensor>;
using train::WeightAverage;

Tensors by_name(const tensor::NamedTensorList& list) { return {list.begin(), list.end()}; }

torch::nn::Sequential small_net() {
  return torch::nn::Sequential(torch::nn::Linear(3, 2), torch::nn::BatchNorm1d(2));
}

void set_tensors(torch::nn::Module& net, const Json& values) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : train::model_state(net)) {
    if (!tensor.is_floating_point()) continue;
    const auto numbers = values.at(name).get<std::vector<float>>();
    tensor.copy_(torch::tensor(numbers).view_as(tensor));
  }
}

TEST(WeightAverage, IsPyTorchsAveragedModel) {
  const Json golden = test::read_golden("weight_average");
  for (const Json& expected : golden.at("cases")) {
    torch::nn::Sequential net = small_net();
    WeightAverage average(*net, expected.at("decay"), expected.at("use_buffers"));
    for (const Json& step : expected.at("steps")) {
      set_tensors(*net, step.at("own"));
      average.update();
      const Tensors have = by_name(average.state());
      for (const auto& [name, values] : step.at("average").items()) {
        const torch::Tensor want = torch::tensor(values.get<std::vector<float>>());
        EXPECT_TRUE(torch::allclose(have.at(name).flatten(), want, 0, 1e-6)) << name << want;
      }
    }
  }
}

TEST(WeightAverage, StandsInTheModuleForAWhile) {
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    torch::nn::Sequential net = small_net();
    net->to(dtype);
    WeightAverage average(*net, 0.5, true);
    average.update();
    {
      const torch::NoGradGuard no_grad;
      for (const auto& parameter : net->parameters()) parameter.add_(1);
    }
    average.update();
    const torch::Tensor weight = net->parameters()[0].detach().clone();
    const Tensors before = by_name(average.state());
    const torch::Tensor mean = before.at("0.weight").clone();
    EXPECT_EQ(mean.scalar_type(), torch::kFloat);
    {
      const WeightAverage::InPlace averages(average);
      EXPECT_TRUE(torch::equal(net->parameters()[0], mean.to(dtype)));
    }
    EXPECT_TRUE(torch::equal(net->parameters()[0], weight));
    EXPECT_TRUE(torch::equal(by_name(average.state()).at("0.weight"), mean)) << "not rounded";
  }
}

TEST(WeightAverage, CopiesCountsAndInfinities) {
  torch::nn::Sequential net = small_net();
  const torch::Tensor mask = net->register_buffer("mask", torch::tensor({0.F, -INFINITY}));
  WeightAverage average(*net, 0.9, true);
  for (int step = 1; step <= 3; ++step) {
    net->forward(torch::rand({4, 3}));
    average.update();
  }
  EXPECT_EQ(by_name(average.state()).at("1.num_batches_tracked").item<int64_t>(), 3);
  EXPECT_TRUE(torch::equal(by_name(average.state()).at("mask"), mask));
}

train::TrainOptions averaged_run() {
  train::TrainOptions options = small_run();
  options.epochs = 1;
  options.lr = 0.1;
  options.ema_decay = 0.8;
  options.checkpoint_every = 1;
  return options;
}

/// The averages that follow from the weights of each step's checkpoint. `tolerance`: of ranks that have
/// pieces, which may be added up by other instructions.
void expect_averages_of_steps(const fs::path& output,
                              int64_t steps,
                              double decay,
                              double tolerance = 0) {
  Tensors average;
  for (int64_t step = 1; step <= steps; ++step) {
    const train::Checkpoint saved = train::read_checkpoint(train::checkpoint_folder(output, step));
    const Tensors have = by_name(saved.more.at("ema"));
    for (const auto& [name, own] : saved.model) {
      const bool has_mean = step > 1 && own.is_floating_point();
      average[name] = has_mean ? torch::lerp(average.at(name), own, 1 - decay) : own.clone();
      const torch::Tensor off = (have.at(name) - average.at(name)).abs();
      EXPECT_LE(off.numel() > 0 ? off.max().item<double>() : 0, tolerance)
          << name << " after " << step;
    }
    EXPECT_EQ(have.size(), saved.model.size());
  }
}

TEST(EmaRun, AveragesTheWeightsOfEachStepUnderEveryStrategy) {
  for (const std::string strategy : {"single", "ddp", "zero1", "zero2"}) {
    train::TrainOptions options = averaged_run();
    options.strategy = strategy;
    const test::Folder folder;
    const Ran ran = run(options, strategy == "single" ? 1 : 2, folder.path());
    SCOPED_TRACE(strategy);
    expect_averages_of_steps(folder.path(), ran.last.position.step, options.ema_decay);
  }
}

struct PartedWay {
  const char* strategy;
  int ranks;
};
constexpr PartedWay kPartedWays[] = {{"fsdp", 2},
                                     {"fsdp", 3},
                                     {"pipeline:split=0/2", 2},
                                     {"pipeline:schedule=zbv,split=0/1/2/3", 2},
                                     {"pipeline:ranks=2,split=0/1", 4}};

TEST(EmaRun, AveragesShardsAndStagesAsTheWhole) {
  for (const auto& [strategy, ranks] : kPartedWays) {
    SCOPED_TRACE(concat(strategy, " on ", ranks));
    train::TrainOptions options = averaged_run();
    options.batch_size = 12;
    options.strategy = strategy;
    const test::Folder folder;
    const Ran ran = run(options, ranks, folder.path());
    expect_averages_of_steps(folder.path(), ran.last.position.step, options.ema_decay, 1e-6);
  }
}

// Averages are whole in checkpoints: they go on in other parts, on other numbers of ranks.
TEST(EmaRun, OfPartsGoesOnInOtherParts) {
  const PartedWay chain[] = {
      {"fsdp", 2}, {"pipeline:split=0/1/3", 3}, {"ddp", 2}, {"fsdp", 3}, {"pipeline:split=0/2", 2}};
  train::TrainOptions options = averaged_run();
  options.batch_size = 12;
  options.epochs = 3;
  const test::Folder folder;
  std::optional<fs::path> checkpoint;
  int64_t steps = 0;
  for (const auto& [strategy, ranks] : chain) {
    options.strategy = strategy;
    const Ran part = run(options, ranks, folder.path(), checkpoint, 3);
    ASSERT_TRUE(part.result.interrupted) << strategy;
    checkpoint = part.result.checkpoint;
    steps = part.last.position.step;
  }
  EXPECT_EQ(steps, 3 * std::ssize(chain));
  expect_averages_of_steps(folder.path(), steps, options.ema_decay, 1e-6);
}

TEST(EmaRun, OfPartsIsTestedByItsAveragesAndLeavesTheTrainingAlone) {
  for (const auto& [strategy, ranks] : kPartedWays) {
    for (const char* which : {"last", "best"}) {
      SCOPED_TRACE(concat(strategy, " on ", ranks, ", ", which));
      train::TrainOptions options = averaged_run();
      options.batch_size = 12;
      options.strategy = strategy;
      options.checkpoint_every = 0;
      options.val_check_interval = 4;
      options.test_weights = which;
      const test::Folder folder, without_folder;
      const Ran ran = run(options, ranks, folder.path());
      train::TrainOptions without = options;
      without.ema_decay = 0;
      expect_same_state(run(without, ranks, without_folder.path()).last, ran.last);
      const ProcessGroup group = distributed::init_process_group({}, std::nullopt);
      train::AskedClassifier asked =
          train::ask_classifier({.run = folder.path(),
                                 .weights = std::string_view(which) == "last" ? "ema" : "best",
                                 .workers = 0},
                                {.cores = 2},
                                group);
      EXPECT_NEAR(train::evaluate(*asked.task, asked.samples, group, asked.options).metrics["loss"],
                  ran.result.test.metrics["loss"],
                  1e-4);
    }
  }
}

// Pieces by hand, in float64: what each rank averages of them is the whole's average.
TEST(WeightAverageOfPieces, IsThatOfTheWhole) {
  torch::manual_seed(7);
  torch::nn::Sequential net = small_net();
  net->to(torch::kDouble);
  WeightAverage whole(*net, 0.9, true);
  std::vector<std::unique_ptr<WeightAverage>> parts;
  int64_t heard = 0;
  for (int64_t rank = 0; rank < 2; ++rank) {
    const auto own = [&net, rank] {
      tensor::NamedTensorList pieces;
      for (const auto& item : net->named_parameters()) {
        const torch::Tensor flat = item.value().detach().view({-1});
        const int64_t half = flat.numel() / 2;
        pieces.emplace_back(
            item.key(),
            rank == 0 ? flat.narrow(0, 0, half) : flat.narrow(0, half, flat.numel() - half));
      }
      return pieces;
    };
    parts.push_back(std::make_unique<WeightAverage>(*net, 0.9, true, own, [&] { ++heard; }));
  }
  const auto expect_same = [&] {
    const Tensors expected = by_name(whole.state());
    const Tensors first = by_name(parts[0]->state()), second = by_name(parts[1]->state());
    for (const auto& [name, piece] : first) {
      const torch::Tensor put = torch::cat({piece, second.at(name)});
      EXPECT_LE((put - expected.at(name).view({-1})).abs().max().item<double>(), 1e-12) << name;
    }
  };
  for (int step = 0; step < 4; ++step) {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : net->parameters()) parameter.add_(torch::randn_like(parameter));
    whole.update();
    for (const auto& part : parts) part->update();
    expect_same();
  }
  const torch::Tensor weights = net->parameters()[0].detach().clone();
  {
    const WeightAverage::InPlace first(*parts[0]), second(*parts[1]);
    for (const auto& item : net->named_parameters())
      EXPECT_LE((item.value() - by_name(whole.state()).at(item.key())).abs().max().item<double>(),
                1e-12);
  }
  EXPECT_TRUE(torch::equal(net->parameters()[0], weights));
  EXPECT_EQ(heard, 4);
}

TEST(EmaRun, AStepThatTheLossScaleLeavesOutMovesNoAverage) {
  train::TrainOptions options = averaged_run();
  // The scale doubles with each step until gradients overflow: again and again.
  options.precision = "16-mixed:init_scale=1e6,growth_interval=1";
  options.epochs = 2;
  const test::Folder folder;
  const Ran ran = run(options, 1, folder.path());
  ASSERT_GT(ran.result.skipped_steps.value_or(0), 1);
  ASSERT_LT(*ran.result.skipped_steps, ran.result.steps - 3);
  int64_t kept = 0;
  Tensors before, average;
  for (int64_t step = 1; step <= ran.result.steps; ++step) {
    const train::Checkpoint saved =
        train::read_checkpoint(train::checkpoint_folder(folder.path(), step));
    const Tensors own = by_name(saved.model), have = by_name(saved.more.at("ema"));
    if (!before.empty() && torch::equal(own.at("fc1.weight"), before.at("fc1.weight"))) {
      ++kept;
      for (const auto& [name, tensor] : have)
        EXPECT_TRUE(torch::equal(tensor, average.at(name))) << name << " after " << step;
    }
    before = own;
    average = have;
  }
  EXPECT_GT(kept, 0);
}

TEST(EmaRun, GoesOnBitForBit) {
  for (const char* strategy : {"ddp", "zero2"}) {
    train::TrainOptions options = averaged_run();
    options.strategy = strategy;
    options.checkpoint_every = 0;
    options.epochs = 2;
    const test::Folder whole_folder, part_folder;
    const Ran whole = run(options, 2, whole_folder.path());
    const Ran part = run(options, 2, part_folder.path(), {}, 9);
    ASSERT_TRUE(part.result.interrupted);
    const Ran resumed = run(options, 2, part_folder.path(), part.result.checkpoint);
    expect_same_state(resumed.last, whole.last);
    const Tensors have = by_name(resumed.last.more.at("ema"));
    for (const auto& [name, tensor] : whole.last.more.at("ema"))
      EXPECT_TRUE(torch::equal(have.at(name), tensor)) << name;
    EXPECT_EQ(resumed.result.test.metrics["loss"], whole.result.test.metrics["loss"]);
  }
}

double loss_of(const train::AskOptions& ask) {
  const ProcessGroup group = distributed::init_process_group({}, std::nullopt);
  train::AskedClassifier asked = train::ask_classifier(ask, {.cores = 2}, group);
  return train::evaluate(*asked.task, asked.samples, group, asked.options).metrics["loss"];
}

TEST(EmaRun, IsValidatedAndTestedByItsAverages) {
  train::TrainOptions options = averaged_run();
  options.epochs = 3;
  options.monitor = "validate_loss";
  options.lr = 0.003;
  options.checkpoint_every = 0;
  for (const char* which : {"last", "best"}) {
    options.test_weights = which;
    const test::Folder folder;
    const Ran ran = run(options, 1, folder.path());
    const double tested = ran.result.test.metrics["loss"];
    const auto asked = [&](const char* weights) {
      return loss_of({.run = folder.path(), .weights = weights, .workers = 0});
    };
    EXPECT_NEAR(asked(""), tested, 1e-6) << which;
    EXPECT_NEAR(asked(std::string_view(which) == "last" ? "ema" : "best"), tested, 1e-6);
    EXPECT_GT(std::abs(asked("last") - asked("ema")), 1e-4) << "the trained weights are others";
    EXPECT_NEAR(asked(concat("step-", ran.last.position.step, ":ema").c_str()), asked("ema"), 0);
  }
}

TEST(EmaRun, LeavesTheTrainingItselfAlone) {
  // Masters of bfloat16 weights too, which are more exact than what stands in their place meanwhile.
  for (const char* strategy : {"ddp", "zero2", "zero1:dtype=bfloat16"}) {
    SCOPED_TRACE(strategy);
    train::TrainOptions options = averaged_run();
    options.strategy = strategy;
    options.checkpoint_every = 0;
    options.val_check_interval = 4;
    const test::Folder with_folder, without_folder;
    const Ran with = run(options, 2, with_folder.path());
    options.ema_decay = 0;
    const Ran without = run(options, 2, without_folder.path());
    expect_same_state(with.last, without.last);
  }
}

TEST(EmaRun, RefusesWhatCannotBe) {
  const auto refused = [](const std::function<void(train::TrainOptions&)>& change) {
    train::TrainOptions options = averaged_run();
    change(options);
    const train::TrainData data = train::open_data(options.data, {});
    return refusal_of([&] { train::resolve(options, {.cores = 2}, *data.train, *data.test); });
  };
  EXPECT_THAT(refused([](auto& o) { o.ema_decay = 1; }), HasSubstr("--ema-decay"));
  EXPECT_THAT(refused([](auto& o) { o.ema_buffers = "mean"; }), HasSubstr("average or copy"));
  train::TrainOptions options = averaged_run();
  options.ema_decay = 0;
  options.max_steps = 2;
  const test::Folder folder;
  const Ran ran = run(options, 1, folder.path());
  EXPECT_THAT(refusal_of([&] { train::read_weights(folder.path(), "ema"); }),
              HasSubstr("--ema-decay"));
}

}  // namespace
}  // namespace muster
