// What a run tells of itself while it goes on: progress, lines, rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/testing/run_ranks.h"
#include "muster/train/progress/messages.h"

#include "tests/support/folder.h"
#include "tests/train/loop/noted_run.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using test::small_run;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

/// What rank 0 tells of a run on `world` ranks.
struct Told {
  std::vector<track::ProgressEvent> events;
  std::vector<std::string> notes;
  train::FitResult result;
};

Told told(const train::TrainOptions& options, int world, const std::filesystem::path& output) {
  Told told;
  const train::TrainData data = train::open_data(options.data, {});
  run_ranks(world, [&](ProcessGroup group) {
    const train::TrainPlan plan = train::resolve(
        options, {.world_size = world, .local_world_size = world}, *data.train, *data.test);
    auto result =
        train::train(plan,
                     data,
                     group,
                     output,
                     {},
                     {.progress = [&](const auto& event) { told.events.push_back(event); },
                      .note = [&](const auto& line) { told.notes.push_back(line); }});
    if (group.rank() == 0) told.result = std::move(result);
  });
  return told;
}

// A rank's own share would pass for the result: accuracy 1.000 where the whole has 0.20.
TEST(RunProgress, ProgressOfAnEvaluationShowsNumbersOfAllRanksOrNone) {
  const test::Folder folder;
  train::TrainOptions options = small_run();
  options.epochs = 1;
  options.data = "synthetic:samples=220,test_samples=1200,size=8,classes=4,noise=0.9";
  const Told run = told(options, 2, folder.path());
  int with_numbers = 0;
  for (const track::ProgressEvent& event : run.events) {
    if (event.phase != "test" || event.metrics.empty()) continue;
    ++with_numbers;
    EXPECT_EQ(event.step, event.steps);
    EXPECT_EQ(*event.find("accuracy"), run.result.test.metrics["accuracy"]);
    EXPECT_EQ(*event.find("loss"), run.result.test.metrics["loss"]);
  }
  EXPECT_EQ(with_numbers, 1);
}

TEST(RunProgress, SaysEachEpochWithoutValidationToo) {
  const test::Folder folder;
  train::TrainOptions options = small_run();
  options.validation_samples = 0;
  const Told run = told(options, 1, folder.path());
  ASSERT_EQ(run.notes.size(), 2U);
  EXPECT_THAT(run.notes[1], HasSubstr("epoch 2/2: loss "));
}

TEST(RunProgress, ARunThatGoesOnBehindItsLastStepSaysWhichLimitItHasReached) {
  const auto line = [](int64_t epochs, int64_t max_steps) {
    train::FitPlan plan;
    plan.options.epochs = epochs;
    plan.options.max_steps = max_steps;
    return train::nothing_left_line(plan, {.step = 26, .epoch = 2});
  };
  EXPECT_EQ(line(2, 0),
            "nothing is left to train after step 26: --epochs 2 is reached; a larger one goes on "
            "from here");
  EXPECT_EQ(line(5, 26),
            "nothing is left to train after step 26: --max-steps 26 is reached; a larger one goes "
            "on from here (--max-steps 0: without that limit)");
  EXPECT_EQ(line(2, 26),
            "nothing is left to train after step 26: --epochs 2 and --max-steps 26 are reached; "
            "larger ones go on from here (--max-steps 0: without that limit)");

  train::TrainOptions options = test::small_mlp();
  options.max_steps = 4;
  const test::Folder folder;
  const auto left = Contains(HasSubstr("nothing is left to train"));
  EXPECT_THAT(test::run_noted(options, folder.path()).notes, Not(left));
  EXPECT_THAT(test::run_noted(options, folder.path(), folder.path()).notes,
              Contains(HasSubstr("after step 4: --max-steps 4 is reached")));
  options.max_steps = 0;
  EXPECT_THAT(test::run_noted(options, folder.path(), folder.path()).notes, Not(left));
  EXPECT_THAT(test::run_noted(options, folder.path(), folder.path()).notes,
              Contains(HasSubstr("after step 26: --epochs 2 is reached")));
}

TEST(RunProgress, ARunThatIsShorterThanItsLogHasALineAndARow) {
  const test::Folder folder;
  train::TrainOptions options = small_run();
  options.log_every = 50;
  options.max_steps = 3;
  const Told run = told(options, 1, folder.path());
  ASSERT_EQ(run.notes.size(), 1U);
  EXPECT_THAT(run.notes[0], HasSubstr("epoch 1/2, 3 of 13 steps: loss "));
  EXPECT_THAT(read_file(folder.path() / "metrics.csv"), HasSubstr("\n3,1,train,"));
}

}  // namespace
}  // namespace muster
