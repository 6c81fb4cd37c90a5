// What a run that goes on is told anew holds from then on, whether it saves anything or not.
#include <functional>
#include <map>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/train/classifier/asked_classifier.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/loop/noted_run.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::kEpochSteps;
using test::model_bytes;
using test::Noted;
using test::run;
using test::run_noted;
using test::small_mlp;
using ::testing::HasSubstr;

Json plan_in(const fs::path& run) { return train::load_checkpoint(run).plan; }

/// Goes on with the run in `from`, and ends it with an error in its first step: nothing is saved.
std::string die_in_first_step(const train::TrainOptions& options,
                              int ranks,
                              const fs::path& from,
                              const fs::path& output) {
  std::vector<std::string> ends(static_cast<size_t>(ranks));
  testing::run_ranks(ranks, [&](distributed::ProcessGroup group) {
    const train::TrainData data = train::open_data(options.data, {});
    const train::TrainPlan plan =
        train::resolve(options,
                       {.world_size = ranks, .local_world_size = ranks, .cores = 2},
                       *data.train,
                       *data.test);
    train::FitCallbacks callbacks;
    callbacks.step_ended = [](const train::StepEnd&) { throw std::runtime_error("power cut"); };
    ends[static_cast<size_t>(group.rank())] = test::error_of(
        [&] { train::train(plan, data, group, output, train::load_checkpoint(from), callbacks); });
  });
  return ends[0];
}

TEST(ToldRun, OneThatDiesBeforeItSavesIsRemembered) {
  train::TrainOptions options = small_mlp();
  const test::Folder folder;
  run(options, 2, folder.path());
  const std::string before = model_bytes(folder.path());
  options.epochs = 5;
  options.lr = 0.001;
  EXPECT_THAT(die_in_first_step(options, 2, folder.path(), folder.path()), HasSubstr("power cut"));
  EXPECT_EQ(train::step_named_by(folder.path() / "latest"), 2 * kEpochSteps);
  EXPECT_EQ(model_bytes(folder.path()), before);
  train::TrainOptions next;
  train::take_over(plan_in(folder.path()), {}, next);
  EXPECT_EQ(next.epochs, 5);
  EXPECT_EQ(next.lr.value, 0.001);
  // And the run goes on as one that was told so and lived.
  next.workers = 0;
  EXPECT_EQ(run_noted(next, folder.path(), folder.path()).result.steps, 5 * kEpochSteps);
}

TEST(ToldRun, OneThatHasNoStepLeftIsRememberedAndAsked) {
  train::TrainOptions options = small_mlp();
  const test::Folder folder;
  run_noted(options, folder.path());
  options.eval_batch_size = 7;
  options.top_k = 2;
  const Noted told = run_noted(options, folder.path(), folder.path());
  EXPECT_EQ(told.result.steps, 2 * kEpochSteps);
  EXPECT_EQ(plan_in(folder.path()).at("eval_batch_size"), 7);
  // Also of weights that an earlier start has saved.
  const fs::path first = train::checkpoint_folder(folder.path(), kEpochSteps);
  ASSERT_EQ(train::read_checkpoint(first).plan.at("top_k"), 0);
  for (const char* which : {"last", "step-13"}) {
    testing::run_ranks(1, [&](distributed::ProcessGroup group) {
      const train::AskedClassifier asked = train::ask_classifier(
          {.run = folder.path(), .weights = which}, {.cores = 2}, group, c10::kCPU);
      EXPECT_EQ(asked.options.batch_size, 7) << which;
      const auto seen = train::evaluate(*asked.task, asked.samples, group, asked.options);
      EXPECT_NE(seen.metrics.find("top_k_accuracy"), nullptr) << which;
    });
  }
}

TEST(ToldRun, OneThatIsToldNothingNewChangesNoByte) {
  const train::TrainOptions options = small_mlp();
  const test::Folder folder;
  run_noted(options, folder.path());
  const fs::path state = train::find_checkpoint(folder.path()) / "state.json";
  const std::string before = read_file(state);
  const auto written = fs::last_write_time(state);
  run_noted(options, folder.path(), folder.path());
  EXPECT_EQ(read_file(state), before);
  EXPECT_EQ(fs::last_write_time(state), written);
}

TEST(ToldRun, OneThatGoesOnElsewhereLeavesTheFirstAsItWas) {
  train::TrainOptions options = small_mlp();
  const test::Folder first, second;
  run_noted(options, first.path());
  const std::string before = read_file(train::find_checkpoint(first.path()) / "state.json");
  options.epochs = 4;
  die_in_first_step(options, 1, first.path(), second.path());
  EXPECT_EQ(read_file(train::find_checkpoint(first.path()) / "state.json"), before);
  EXPECT_EQ(plan_in(second.path()).at("epochs"), 4);
}

TEST(ToldRun, OneThatIsRefusedIsToldNothing) {
  train::TrainOptions options = small_mlp();
  const test::Folder folder;
  run_noted(options, folder.path());
  const std::string before = read_file(train::find_checkpoint(folder.path()) / "state.json");
  options.epochs = 1;  // behind it
  options.eval_batch_size = 7;
  EXPECT_THAT(test::refusal_of([&] { run_noted(options, folder.path(), folder.path()); }),
              HasSubstr("--epochs"));
  EXPECT_EQ(read_file(train::find_checkpoint(folder.path()) / "state.json"), before);
}

// Machines may have copies of the folder, and only the first one's is told.
TEST(ToldRun, RanksWithACopyOfBeforeGoOnWithIt) {
  train::TrainOptions options = small_mlp();
  const test::Folder folder, copy;
  run(options, 2, folder.path());
  fs::copy(folder.path(), copy.path() / "run", fs::copy_options::recursive);
  options.epochs = 3;
  die_in_first_step(options, 2, folder.path(), folder.path());
  testing::run_ranks(2, [&](distributed::ProcessGroup group) {
    const train::TrainData data = train::open_data(options.data, {});
    const train::TrainPlan plan = train::resolve(
        options, {.world_size = 2, .local_world_size = 2, .cores = 2}, *data.train, *data.test);
    const fs::path from = group.rank() == 0 ? folder.path() : copy.path() / "run";
    const auto ended =
        train::train(plan, data, group, folder.path(), train::load_checkpoint(from), {});
    EXPECT_EQ(ended.steps, 3 * kEpochSteps);
  });
}

// The state in the checkpoint stays that of the hook that made it.
TEST(ToldRun, AHookThatWasToldMeanwhileTakesNoStateOfAnother) {
  train::TrainOptions options = small_mlp();
  options.comm_hook = "powersgd:min_compression_rate=1,start=0";
  const test::Folder whole, folder;
  run(options, 2, whole.path());
  run(options, 2, folder.path(), {}, 5);
  train::TrainOptions half = options;
  half.comm_hook = "fp16";
  die_in_first_step(half, 2, folder.path(), folder.path());
  EXPECT_EQ(plan_in(folder.path()).at("comm_hook"), "fp16");
  // It goes on by fp16; told back, by what it has of the first.
  const test::Folder other;
  run(half, 2, other.path(), train::find_checkpoint(folder.path()));
  run(options, 2, folder.path(), train::find_checkpoint(folder.path()));
  EXPECT_EQ(model_bytes(folder.path()), model_bytes(whole.path()));
  EXPECT_FALSE(plan_in(folder.path()).contains(train::kHookOfState));
}

}  // namespace
}  // namespace muster
