// A process is killed at any of its steps while a run goes back or goes on elsewhere: nothing is lost.
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/train/checkpoints/run_folder.h"

#include "tests/support/folder.h"
#include "tests/train/checkpoints/kill_at_change.h"
#include "tests/train/checkpoints/small_run.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::at;
using test::make_run;
using test::weight;
using ::testing::ElementsAre;
using train::RunFolder;

/// All checkpoints under the folder that read, by weight (their step).
std::set<double> whole_ones(const fs::path& folder) {
  std::set<double> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename() != "state.json") continue;
    found.insert(weight(train::read_checkpoint(entry.path().parent_path())));
  }
  return found;
}

void go_back(const fs::path& run, int64_t step) {
  RunFolder folder(run);
  const train::Checkpoint from = at(run, step);
  folder.prepare(&from);
}

/// The run is back at 10, and what came after is one run, whole.
void expect_one_future(const fs::path& run) {
  EXPECT_THAT(whole_ones(run), ElementsAre(10, 20, 30, 40));
  EXPECT_THAT(train::checkpoint_steps(run), ElementsAre(10));
  EXPECT_EQ(weight(train::load_checkpoint(run)), 10);
  EXPECT_EQ(train::step_named_by(run / "best"), 10);
  std::vector<std::string> places;
  for (const auto& place : fs::directory_iterator(run / "abandoned"))
    places.push_back(place.path().filename());
  ASSERT_THAT(places, ElementsAre("1"));
  const fs::path aside = run / "abandoned" / "1";
  EXPECT_THAT(train::checkpoint_steps(aside), ElementsAre(40, 30, 20));
  EXPECT_EQ(weight(train::load_checkpoint(aside)), 40);
  EXPECT_EQ(train::step_named_by(aside / "best"), 20);
  EXPECT_EQ(weight(at(aside, 20)), 20);
  EXPECT_EQ(read_file(aside / "metrics.jsonl"), "rows up to 40\n");
}

TEST(RunFolder, AKillWhileItGoesBackLosesNothing) {
  const auto go_back_to_10 = [](const fs::path& run) { go_back(run, 10); };
  test::kill_at_each_change(make_run, go_back_to_10, [&](const fs::path& run) {
    EXPECT_THAT(whole_ones(run), ElementsAre(10, 20, 30, 40));
    const double latest = weight(train::load_checkpoint(run));
    EXPECT_TRUE(latest == 40 || latest == 10) << latest;
    go_back(run, 10);  // the same command again
    expect_one_future(run);
  });
}

// Not to where the killed one wanted: both pieces of the future are one line, and it stays one.
TEST(RunFolder, AKillWhileItGoesBackAndThenFurtherBackMakesOneRunOfTheFuture) {
  test::kill_at_each_change(
      make_run,
      [&](const fs::path& run) { go_back(run, 20); },
      [&](const fs::path& run) {
        const bool was_over = fs::exists(run / "abandoned" / "1");
        go_back(run, 10);
        if (!was_over) return expect_one_future(run);
        EXPECT_THAT(whole_ones(run), ElementsAre(10, 20, 30, 40));
        EXPECT_THAT(train::checkpoint_steps(run), ElementsAre(10));
      });
}

// The best epoch that had come along with a later future was changed for the run's own one, and a kill while
// that was removed left two halves.
TEST(RunFolder, TwoKillsWhileItGoesBackEachTimeFurtherLoseNothing) {
  // The first falls where the future is known and the run is not pointed back yet.
  const auto is_there = [](const fs::path& run) {
    return fs::exists(run / "abandoned" / ".unfinished-" / "latest") &&
           train::step_named_by(run / "latest") == 40;
  };
  const auto make_and_kill = [&](const fs::path& run, int changes) {
    make_run(run);
    return test::comes_through(changes, [&] { go_back(run, 30); });
  };
  int first = 0;
  for (bool found = false; !found; ++first) {
    const test::Folder place;
    ASSERT_FALSE(make_and_kill(place.path(), first)) << "no kill falls there";
    found = is_there(place.path());
  }
  --first;
  test::kill_at_each_change([&](const fs::path& run) { make_and_kill(run, first); },
                            [](const fs::path& run) { go_back(run, 10); },
                            [](const fs::path& run) {
                              go_back(run, 10);
                              expect_one_future(run);
                            });
}

TEST(RunFolder, AKillWhileItBeginsElsewhereLeavesThePlaceToTheSameCommand) {
  const auto branch = [](const fs::path& place) {
    const train::Checkpoint from = at(place / "a", 30);
    RunFolder folder(place / "b");
    folder.check(&from);
    folder.prepare(&from);
  };
  const auto make = [](const fs::path& place) { make_run(place / "a"); };
  test::kill_at_each_change(make, branch, [&](const fs::path& place) {
    EXPECT_THAT(train::checkpoint_steps(place / "a"), ElementsAre(40, 30, 20, 10));
    if (fs::exists(place / "b" / "latest")) {
      EXPECT_EQ(weight(train::load_checkpoint(place / "b")), 30);
    } else {
      branch(place);
    }
    EXPECT_THAT(train::checkpoint_steps(place / "b"), ElementsAre(30, 20));
    EXPECT_EQ(weight(train::load_checkpoint(place / "b")), 30);
  });
}

}  // namespace
}  // namespace muster
