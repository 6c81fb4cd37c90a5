// A run whose folder is moved or removed while it goes on.
#include <chrono>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/testing/run_ranks.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/loop/noted_run.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::kEpochSteps;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

/// Until the one of `step` is written, which the training does not wait for; none of step 0 is.
void wait_for_checkpoint(const fs::path& output, int64_t step) {
  while (step > 0 && train::step_named_by(output / "latest") != step)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// What each of two ranks ends with if `act` is done in the third step after `after`.
std::vector<std::string> ends_of_run(const fs::path& output,
                                     int64_t after,
                                     const std::function<void()>& act) {
  const train::TrainOptions options = test::small_mlp();
  const train::TrainData data = train::open_data(options.data, {});
  const train::TrainPlan plan = train::resolve(
      options, {.world_size = 2, .cores = 2, .intraop_threads = 1}, *data.train, *data.test);
  std::vector<std::string> ends(2);
  testing::run_ranks(2, [&](distributed::ProcessGroup group) {
    const bool first = group.rank() == 0;
    int64_t asked = 0;
    ends[static_cast<size_t>(group.rank())] = test::error_of([&] {
      train::train(plan, data, group, output, {}, {.stop_requested = [&] {
                     if (first && ++asked == after + 3) {
                       wait_for_checkpoint(output, after);
                       act();
                     }
                     return false;
                   }});
    });
  });
  return ends;
}

TEST(MovedFolder, EndsTheRunOnEveryRankWithItsStateWhereTheFolderIs) {
  for (const int64_t after : {int64_t{0}, kEpochSteps}) {
    const test::Folder place;
    const fs::path output = place.path() / "run", other = place.path() / "kept";
    const auto ends = ends_of_run(output, after, [&] { fs::rename(output, other); });
    EXPECT_THAT(ends,
                Each(AllOf(HasSubstr("the run's folder " + output.string()),
                           HasSubstr("moved to " + other.string()),
                           HasSubstr("--resume " + other.string()))));
    EXPECT_FALSE(fs::exists(output)) << "half a run";
    EXPECT_FALSE(fs::exists(other / ".lock"));
    EXPECT_EQ(train::load_checkpoint(other).position.step, after + kEpochSteps);
  }
}

TEST(MovedFolder, EndsTheRunThatHasOneNoMore) {
  const test::Folder place;
  const fs::path output = place.path() / "run";
  const auto ends = ends_of_run(output, 0, [&] { fs::remove_all(output); });
  EXPECT_THAT(ends, Each(AllOf(HasSubstr(output.string()), HasSubstr("(got removed)"))));
  EXPECT_FALSE(fs::exists(output));
}

TEST(MovedFolder, EndsTheRunThatIsAboutToReadItsBestWeights) {
  const test::Folder place;
  const fs::path output = place.path() / "run", other = place.path() / "kept";
  train::TrainOptions options = test::small_mlp();
  options.test_weights = "best";
  const train::TrainData data = train::open_data(options.data, {});
  const train::TrainPlan plan = train::resolve(
      options, {.world_size = 2, .cores = 2, .intraop_threads = 1}, *data.train, *data.test);
  std::vector<std::string> ends(2);
  testing::run_ranks(2, [&](distributed::ProcessGroup group) {
    ends[static_cast<size_t>(group.rank())] = test::error_of([&] {
      train::train(plan, data, group, output, {}, {.saved = [&](const train::CheckpointEnd& end) {
                     if (end.at.step == plan.total_steps) fs::rename(output, other);
                   }});
    });
  });
  EXPECT_THAT(ends, Each(HasSubstr("moved to " + other.string())));
  EXPECT_EQ(train::load_checkpoint(other).position.step, plan.total_steps);
}

TEST(MovedFolder, IsFollowedByTheRunThatGoesOnThere) {
  const test::Folder place, whole;
  const fs::path output = place.path() / "run", other = place.path() / "kept";
  ends_of_run(output, 0, [&] { fs::rename(output, other); });
  test::run_noted(test::small_mlp(), other, other);
  EXPECT_EQ(train::load_checkpoint(other).position.step, test::small_mlp().epochs * kEpochSteps);
}

}  // namespace
}  // namespace muster
