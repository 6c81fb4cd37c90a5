// What --explain says of memory, against what a run took.
#include "muster/train/loop/memory_estimate.h"

#include <cmath>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/estimate/cpu_scratch.h"
#include "muster/memory/estimate/estimate.h"
#include "muster/train/loop/task_parts.h"

#include "tests/support/folder.h"
#include "tests/train/small_run.h"
#include "tests/train/task/own_fit.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Before main(): tests of this program make fake accelerators, in any order, and the first recording has to come
/// before the first of those.
[[maybe_unused]] const bool kRecordedBeforeAnyDevice = [] {
  const memory::Recording recording(memory::Level::kCounters);
  return true;
}();

train::TrainOptions estimated_run(const std::string& model) {
  train::TrainOptions options = test::small_run();
  options.model = model;
  options.data = "synthetic:samples=300,test_samples=16,size=28,classes=10";
  options.epochs = 1;
  options.batch_size = 96;
  options.validation_samples = 12;
  options.tensorboard = "off";
  return options;
}

struct PlannedRun {
  train::TrainData data;
  train::TrainPlan plan;

  PlannedRun(const train::TrainOptions& options, int world)
      : data(train::open_data(options.data, {})),
        plan(train::resolve(options,
                            {.world_size = world, .local_world_size = world, .cores = 2},
                            *data.train,
                            *data.test)) {}
  std::string outlook() const {
    return train::memory_outlook(
        train::make_seeded(train::classifier_maker(plan, false), plan.options.seed),
        train::split_data(plan, data),
        train::fit_plan(plan));
  }
};

double mib_said(const std::string& outlook) {
  const std::string_view before = "about ";
  return std::strtod(outlook.c_str() + outlook.find(before) + before.size(), nullptr);
}

/// Of each of so many ranks, from the end of the first step on.
double mib_taken(const train::TrainOptions& options, int world) {
  const test::Folder folder;
  const memory::Recording recording(memory::Level::kCounters);
  const PlannedRun run(options, world);
  const int64_t before = memory::cpu_counters().current;
  int64_t peak = 0;
  testing::run_ranks(world, [&](const distributed::ProcessGroup& group) {
    const auto step_ended = [&, rank = group.rank()](const train::StepEnd& end) {
      if (rank != 0) return;
      if (end.at.step == 1) memory::reset_cpu_peak();
      peak = memory::cpu_counters().peak;
    };
    train::train(run.plan, run.data, group, folder.path() / "run", {}, {.step_ended = step_ended});
  });
  return static_cast<double>(peak - before) / world / (1 << 20);
}

TEST(MemoryOutlook, IsWhatARunTakes) {
  if (!memory::is_cpu_scratch_known())
    GTEST_SKIP() << "the scratch of convolutions was seen with AVX2 alone";
  for (const char* const model : {"mlp:hidden=400", "cnn:width=16", "transformer"}) {
    SCOPED_TRACE(model);
    train::TrainOptions options = estimated_run(model);
    options.optimizer = "adam";
    const double said = mib_said(PlannedRun(options, 1).outlook());
    EXPECT_NEAR(said, mib_taken(options, 1), memory::kEstimateError * said);
  }
}

TEST(MemoryOutlook, CountsAveragesClippingAndAccumulation) {
  if (!memory::is_cpu_scratch_known())
    GTEST_SKIP() << "the scratch of convolutions was seen with AVX2 alone";
  train::TrainOptions options = estimated_run("mlp:hidden=600");
  const double plain = mib_said(PlannedRun(options, 1).outlook());
  options.ema_decay = 0.9;
  options.gradient_clip_val = 1;
  options.accumulate_grad_batches = 3;
  options.data = "synthetic:samples=1200,test_samples=16,size=28,classes=10";
  const double said = mib_said(PlannedRun(options, 1).outlook());
  EXPECT_GT(said, plain * 1.2);
  EXPECT_NEAR(said, mib_taken(options, 1), memory::kEstimateError * said);
}

TEST(MemoryOutlook, CountsTheStateThatAMomentumOfTheScheduleTakes) {
  if (!memory::is_cpu_scratch_known())
    GTEST_SKIP() << "the scratch of convolutions was seen with AVX2 alone";
  train::TrainOptions options = estimated_run("mlp:hidden=600");
  options.optimizer = "sgd:momentum=0";
  const double plain = mib_said(PlannedRun(options, 1).outlook());
  options.lr_schedule = "one_cycle:cycle_momentum=false";
  EXPECT_EQ(mib_said(PlannedRun(options, 1).outlook()), plain);
  options.lr_schedule = "one_cycle";
  const double said = mib_said(PlannedRun(options, 1).outlook());
  EXPECT_GT(said, plain * 1.2) << "parameters, gradients and a buffer, not two of them";
  EXPECT_NEAR(said, mib_taken(options, 1), memory::kEstimateError * said);
}

TEST(MemoryOutlook, CountsBucketsOfReplicas) {
  if (!memory::is_cpu_scratch_known())
    GTEST_SKIP() << "the scratch of convolutions was seen with AVX2 alone";
  train::TrainOptions options = estimated_run("mlp:hidden=600");
  options.strategy = "ddp";
  const PlannedRun two(options, 2);
  EXPECT_THAT(two.outlook(), StartsWith("per rank about "));
  EXPECT_THAT(two.outlook(), HasSubstr("without what ranks send each other"));
  const double said = mib_said(two.outlook());
  // Of threads together: they do not come to their peaks at the same moment.
  EXPECT_NEAR(said, mib_taken(options, 2), 0.25 * said);
}

TEST(MemoryOutlook, OfABatchThatIsLargerThanTheDataIsThatOfTheData) {
  for (const int world : {1, 2}) {
    train::TrainOptions options = estimated_run("mlp:hidden=40");
    options.strategy = "auto";
    options.batch_size = 288;  // 300, without those that are held out
    const std::string whole = PlannedRun(options, world).outlook();
    options.batch_size = 2'000'000'000;
    EXPECT_EQ(PlannedRun(options, world).outlook(), whole);
    options.batch_size = 144;
    EXPECT_LT(mib_said(PlannedRun(options, world).outlook()), mib_said(whole));
  }
}

TEST(MemoryOutlook, SaysWhatItDoesNotKnow) {
  const auto outlook = [](const std::function<void(train::TrainOptions&)>& change, int world = 1) {
    train::TrainOptions options = estimated_run("cnn:width=4");
    change(options);
    return PlannedRun(options, world).outlook();
  };
  EXPECT_THAT(outlook([](auto& options) { options.precision = "bf16-mixed"; }),
              StartsWith("not estimated: what --precision bf16-mixed casts"));
  EXPECT_THAT(outlook([](auto& options) { options.strategy = "zero2"; }, 2),
              HasSubstr("of a rank with the whole model, which zero2 divides"));
  EXPECT_THAT(outlook([](auto& options) { options.activation_checkpointing = "blocks"; }),
              HasSubstr("with all activations"));
}

/// Looks at numbers.
class Looking final : public train::Task {
 public:
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  train::StepResult train_step(const data::Batch& batch, const train::StepContext&) override {
    const at::Tensor out = net_(batch["x"]).squeeze(1);
    return {torch::mse_loss(out, batch["y"]) * (out.sum().item<double>() > 0 ? 2 : 1)};
  }

 private:
  torch::nn::Linear net_{3, 1};
};

TEST(MemoryOutlook, NamesTheOperatorOfATaskThatNeedsNumbers) {
  const train::FitData data{.train = test::numbers(), .validation = {}, .test = {}};
  const train::FitPlan plan = test::planned(test::small_own(), 1, data, {});
  const std::string outlook = train::memory_outlook(std::make_unique<Looking>(), data, plan);
  EXPECT_THAT(outlook, StartsWith("not estimated: aten::_local_scalar_dense does not run on meta"));
}

}  // namespace
}  // namespace muster
