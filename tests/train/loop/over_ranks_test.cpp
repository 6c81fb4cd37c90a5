// What a run says about its ranks: --sync-batch-norm, --comm-hook, --find-unused-parameters.
#include <functional>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/text.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/tensor/unit_call.h"
#include "muster/testing/run_ranks.h"
#include "muster/train/loop/fit.h"
#include "muster/train/loop/resolve.h"
#include "muster/train/loop/task_parts.h"
#include "muster/train/loop/trained_part.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/small_run.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using test::expect_same_state;
using test::model_difference;
using test::Ran;
using test::refusal_of;
using test::run;
using test::small_run;
using ::testing::AllOf;
using ::testing::HasSubstr;

train::TrainOptions sync_run(bool sync) {
  train::TrainOptions options = small_run();
  options.validation_samples = 27;  // 193 to train: the last batch has one sample
  options.optimizer = "sgd:momentum=0.9";
  options.lr = 0.02;
  options.sync_batch_norm = sync;
  return options;
}

TEST(SyncBatchNormRun, EndsAsOneRankWithTheWholeBatchAlsoBehindUnevenBatches) {
  const test::Folder alone_folder;
  const Ran alone = run(sync_run(true), 1, alone_folder.path());
  for (const int world : {2, 4}) {
    const test::Folder with_folder, without_folder;
    const double with =
        model_difference(run(sync_run(true), world, with_folder.path()).last, alone.last);
    const double without =
        model_difference(run(sync_run(false), world, without_folder.path()).last, alone.last);
    EXPECT_LE(with, 2e-5) << world;
    EXPECT_GE(without, 1e-3) << world;  // the flag is what does it
  }
}

TEST(SyncBatchNormRun, ReachesTheNormsOfTheZoosResNet) {
  const auto after_two_steps = [](bool sync, int world) {
    train::TrainOptions options = sync_run(sync);
    options.model = "resnet18";
    options.data = "synthetic:samples=40,test_samples=8,size=32,classes=4,noise=0.3";
    options.validation_samples = 8;
    options.batch_size = 8;
    options.max_steps = 2;
    // The norms' statistics tell it. Gradients hang on which side of zero a ReLU's input falls, so on the
    // kernels: to 3 % of those in float64, in Python, too.
    options.lr = 1e-7;
    const test::Folder folder;
    return run(options, world, folder.path()).last;
  };
  const auto alone = after_two_steps(true, 1);
  EXPECT_LE(model_difference(after_two_steps(true, 2), alone), 1e-4);
  EXPECT_GE(model_difference(after_two_steps(false, 2), alone), 1e-3);
}

// The last stage of a ResNet sees one position of these images.
train::TrainOptions one_sample_per_rank(int64_t samples) {
  train::TrainOptions options = sync_run(true);
  options.model = "resnet18";
  options.data = concat("synthetic:samples=", samples, ",test_samples=4,size=32,classes=4");
  options.validation_samples = 0;
  options.batch_size = 2;
  // Gradients behind norms of two values are differences of what is nearly equal: the statistics tell it.
  options.lr = 1e-12;
  options.epochs = 1;
  return options;
}

TEST(SyncBatchNormRun, OneSampleOfEachRankIsEnoughForOnePosition) {
  const test::Folder one, two;
  const Ran alone = run(one_sample_per_rank(4), 1, one.path());
  const Ran shared = run(one_sample_per_rank(4), 2, two.path());
  EXPECT_EQ(shared.last.position.step, 2);
  EXPECT_LE(model_difference(shared.last, alone.last), 1e-3);
}

TEST(SyncBatchNormRun, OneSampleOfAllRanksIsRefusedBeforeTheRun) {
  const auto refusal = [](int64_t samples, bool sync) {
    train::TrainOptions options = one_sample_per_rank(samples);
    options.sync_batch_norm = sync;
    return refusal_of([&] {
      const train::TrainData data = train::open_data(options.data, {});
      train::resolve(options, {.world_size = 2, .local_world_size = 2}, *data.train, *data.test);
    });
  };
  EXPECT_THAT(refusal(5, true),
              AllOf(HasSubstr("is all that an epoch's last batch leaves to the ranks"),
                    HasSubstr("take --drop-last")));
  EXPECT_THAT(refusal(4, false), HasSubstr("is all that a rank gets"));
}

TEST(SyncBatchNormRun, GoesOnBitForBitUnderZero) {
  train::TrainOptions options = sync_run(true);
  options.strategy = "zero2";
  options.accumulate_grad_batches = 2;
  const test::Folder whole_folder, part_folder;
  const Ran whole = run(options, 2, whole_folder.path());
  const Ran part = run(options, 2, part_folder.path(), {}, 5);
  EXPECT_TRUE(part.result.interrupted);
  expect_same_state(run(options, 2, part_folder.path(), part.result.checkpoint).last, whole.last);
}

train::TrainOptions hook_run(const std::string& hook) {
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=32";
  options.comm_hook = hook;
  return options;
}

void expect_same_hooks(const train::Checkpoint& have, const train::Checkpoint& want) {
  ASSERT_TRUE(have.more.contains("comm_hook") && want.more.contains("comm_hook"));
  const auto &a = have.more.at("comm_hook"), &b = want.more.at("comm_hook");
  ASSERT_EQ(a.size(), b.size());
  bool has_errors = false;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(torch::equal(a[i].second, b[i].second)) << a[i].first;
    has_errors |= a[i].first.starts_with("rank.1/error/");
  }
  EXPECT_TRUE(has_errors);
}

TEST(CommHookRun, PowerSgdsErrorsAndQsGoOnBitForBit) {
  // From the first step, behind some whole ones, and with Qs that are drawn in each step.
  for (const std::string params : {"start=0,rank=2", "start=3", "start=0,warm_start=false"}) {
    const train::TrainOptions options = hook_run("powersgd:min_compression_rate=1," + params);
    for (const int world : {2, 3}) {
      train::TrainOptions own = options;
      own.batch_size = 12;
      const test::Folder whole_folder, part_folder;
      const Ran whole = run(own, world, whole_folder.path());
      for (const int64_t stop_after : {2, 9}) {
        const test::Folder folder;
        const Ran part = run(own, world, folder.path(), {}, stop_after);
        const Ran resumed = run(own, world, folder.path(), part.result.checkpoint);
        SCOPED_TRACE(concat(params, " on ", world, " ranks after ", stop_after));
        expect_same_state(resumed.last, whole.last);
        expect_same_hooks(resumed.last, whole.last);
      }
    }
  }
}

TEST(CommHookRun, OtherNumbersOfRanksTakeTheMeanOfTheErrors) {
  const train::TrainOptions options = hook_run("powersgd:min_compression_rate=1,start=0");
  const test::Folder folder;
  const train::Checkpoint two = run(options, 2, folder.path()).last;
  const std::map<std::string, torch::Tensor> before(two.more.at("comm_hook").begin(),
                                                    two.more.at("comm_hook").end());
  const train::TrainData data = train::open_data(options.data, {});
  const train::TrainPlan plan = train::resolve(
      options, {.world_size = 4, .local_world_size = 4, .cores = 2}, *data.train, *data.test);
  const train::FitPlan resolved = train::fit_plan(plan);
  testing::run_ranks(4, [&](ProcessGroup group) {
    const auto task = train::make_seeded(train::classifier_maker(plan, true), options.seed);
    train::detail::TrainedPart part(
        "", {.plan = resolved, .module = task->module(), .group = group, .rules = {}});
    part.load_hook_state(two.more.at("comm_hook"), group, /*saved_ranks=*/2);
    int64_t errors = 0;
    for (const auto& [name, tensor] : part.hook_state(group)) {
      const std::string what = name.substr(name.find('/'));
      const torch::Tensor first = before.at("rank.0" + what), second = before.at("rank.1" + what);
      const bool is_error = what.starts_with("/error/");
      errors += is_error ? 1 : 0;
      EXPECT_EQ(torch::equal(first, second), !is_error) << name;
      const torch::Tensor mean = tensor.is_floating_point() ? (first + second) / 2 : first;
      EXPECT_TRUE(torch::equal(tensor, mean)) << name;
    }
    EXPECT_EQ(errors, group.rank() == 0 ? 4 * 3 : 0);
  });
}

TEST(CommHookRun, Fp16RoundsGradientsAndKeepsNoState) {
  const test::Folder plain_folder, half_folder;
  const Ran plain = run(hook_run("none"), 2, plain_folder.path());
  const Ran half = run(hook_run("fp16"), 2, half_folder.path());
  EXPECT_FALSE(half.last.more.contains("comm_hook"));
  const double off = model_difference(half.last, plain.last);
  EXPECT_GT(off, 0);
  EXPECT_LT(off, 0.01);
}

std::string refused(const std::function<void(train::TrainOptions&)>& change, int64_t world = 2) {
  train::TrainOptions options = hook_run("fp16");
  change(options);
  const train::TrainData data = train::open_data(options.data, {});
  return refusal_of([&] {
    train::resolve(options,
                   {.world_size = world, .local_world_size = world, .cores = 2},
                   *data.train,
                   *data.test);
  });
}

TEST(CommHookRun, IsRefusedWhereItHasNoSense) {
  EXPECT_THAT(refused([](auto& o) { o.comm_hook = "powersg"; }), HasSubstr("powersgd"));
  EXPECT_THAT(refused([](auto& o) { o.comm_hook = "powersgd:rang=2"; }), HasSubstr("rang"));
  EXPECT_THAT(refused([](auto& o) { o.comm_hook = "powersgd:rank=0"; }), HasSubstr("rank=0"));
  EXPECT_THAT(refused([](auto& o) { o.strategy = "zero1"; }),
              AllOf(HasSubstr("--comm-hook fp16"), HasSubstr("--strategy zero1")));
  EXPECT_THAT(refused([](auto& o) {
                o.comm_hook = "powersgd";
                o.precision = "16-mixed";
              }),
              AllOf(HasSubstr("--comm-hook powersgd"), HasSubstr("--precision bf16-mixed")));
}

/// Two ways through, taken in turn.
struct ForkedImpl : torch::nn::Module, tensor::HasUnits {
  std::vector<tensor::Unit> units() override { return {{"stem", stem->parameters()}}; }

  torch::nn::Linear stem = register_module("stem", torch::nn::Linear(3, 4));
  torch::nn::Linear left = register_module("left", torch::nn::Linear(4, 1));
  torch::nn::Linear right = register_module("right", torch::nn::Linear(4, 1));
};
TORCH_MODULE(Forked);

class ForkedTask final : public train::Task {
 public:
  std::string name() const override { return "forked"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  train::StepResult train_step(const data::Batch& batch,
                               const train::StepContext& context) override {
    torch::nn::Linear& way = context.step % 2 == 0 ? net_->left : net_->right;
    const torch::Tensor stem = tensor::call_unit("stem", net_->stem, batch["x"]);
    const torch::Tensor out = way(torch::tanh(stem)).squeeze(1);
    return {torch::mse_loss(out, batch["y"])};
  }

 private:
  Forked net_;
};

train::Checkpoint run_forked(train::FitOptions options,
                             int world,
                             const std::filesystem::path& output) {
  const at::Generator generator = at::detail::createCPUGenerator(5);
  const torch::Tensor x = torch::rand({24, 3}, generator);
  const train::FitData data{.train = std::make_shared<data::TensorDataset>(
                                tensor::NamedTensorList{{"x", x}, {"y", x.sum(1).sin()}})};
  options.batch_size = 8;
  options.epochs = 2;
  options.workers = 0;
  options.optimizer = "adamw:weight_decay=0.1";
  options.tensorboard = "off";
  testing::run_ranks(world, [&](ProcessGroup group) {
    train::FitPlan plan;
    plan.options = options;
    static_cast<train::FitNumbers&>(plan) =
        train::resolve_fit(plan.options,
                           {.world_size = world, .local_world_size = world, .cores = 2},
                           data.facts(),
                           {});
    plan.record = train::to_json(plan.options, plan);
    train::fit({.task = [] { return std::make_unique<ForkedTask>(); },
                .data = data,
                .plan = plan,
                .output = output},
               group);
  });
  return train::load_checkpoint(output);
}

TEST(FindUnusedParameters, LetsAStepLeaveOutPartsOfTheModule) {
  const test::Folder refused_folder, alone_folder;
  EXPECT_THAT(test::error_of([&] { run_forked({}, 2, refused_folder.path()); }),
              AllOf(HasSubstr("right.weight"), HasSubstr("find_unused_parameters")));
  train::FitOptions options;
  options.find_unused_parameters = true;
  const train::Checkpoint alone = run_forked(options, 1, alone_folder.path());
  for (const char* strategy : {"ddp", "zero1", "zero2", "fsdp"}) {
    const test::Folder folder;
    options.strategy = strategy;
    EXPECT_LE(model_difference(run_forked(options, 2, folder.path()), alone), 1e-6) << strategy;
  }
}

}  // namespace
}  // namespace muster
