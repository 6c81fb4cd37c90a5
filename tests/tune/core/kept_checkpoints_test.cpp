#include "muster/tune/core/kept_checkpoints.h"

#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"

namespace muster::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Event reported(int64_t trial, const std::string& checkpoint) {
  Reported what;
  what.report.checkpoint = checkpoint;
  return {.trial = trial, .what = what};
}

Event started(int64_t trial, const std::string& from) {
  return {.trial = trial, .what = AttemptStarted{.attempt = 2, .from_checkpoint = from}};
}

Event ended(int64_t trial, TrialState then) {
  return {.trial = trial, .what = AttemptEnded{.then = then}};
}

TEST(KeptCheckpoints, OfEachTrialTheNewestStayAlsoWhenItIsOver) {
  KeptCheckpoints kept(2);
  for (const char* path : {"0/a", "0/b"}) kept.add(reported(0, path));
  kept.add(reported(1, "1/a"));
  EXPECT_THAT(kept.take_needless(), IsEmpty());
  kept.add(reported(0, "0/c"));
  EXPECT_THAT(kept.take_needless(), ElementsAre("0/a"));
  kept.add(ended(0, TrialState::kComplete));
  EXPECT_THAT(kept.take_needless(), IsEmpty());
}

TEST(KeptCheckpoints, ADonorsIsPinnedUntilWhoWentOnFromItHasOneOfItsOwn) {
  for (const bool ends : {false, true}) {
    KeptCheckpoints kept(1);
    kept.add(reported(0, "0/a"));
    kept.add(reported(1, "1/a"));
    kept.add(started(1, "0/a"));
    kept.add(reported(0, "0/b"));
    EXPECT_THAT(kept.take_needless(), IsEmpty());
    kept.add(ended(1, TrialState::kPending));  // a crash: it goes on from there once more
    kept.add(started(1, "0/a"));
    EXPECT_THAT(kept.take_needless(), IsEmpty());
    kept.add(ends ? ended(1, TrialState::kPruned) : reported(1, "1/b"));
    if (ends) {
      EXPECT_THAT(kept.take_needless(), ElementsAre("1/a")) << "the donor's is its newest for ever";
    } else {
      EXPECT_THAT(kept.take_needless(), ElementsAre("0/a", "1/a"));
    }
  }
}

TEST(KeptCheckpoints, APathThatIsWrittenAnewOrHoldsANeededOneStays) {
  KeptCheckpoints kept(1);
  for (int i = 0; i < 3; ++i) kept.add(reported(0, "0/last"));
  EXPECT_THAT(kept.take_needless(), IsEmpty());
  kept.add(reported(0, "0/last/best"));
  EXPECT_THAT(kept.take_needless(), IsEmpty()) << "0/last holds it";
  kept.add(reported(0, "0/other"));
  EXPECT_THAT(kept.take_needless(), ElementsAre("0/last/best"));
  kept.add(reported(0, "0/last/best"));
  kept.add(reported(0, "0/x"));
  kept.add(reported(0, "0/last/best"));
  EXPECT_THAT(kept.take_needless(), ElementsAre("0/other", "0/x"));
}

TEST(KeptCheckpoints, WithoutALimitAllStay) {
  KeptCheckpoints kept(0);
  for (int i = 0; i < 9; ++i) kept.add(reported(0, concat("0/", i)));
  EXPECT_THAT(kept.take_needless(), IsEmpty());
}

TEST(KeptCheckpoints, CutAnywhereTheLogNamesTheSame) {
  // What was named before the cut or is named behind it is what an unbroken one names.
  std::mt19937 random(3);
  std::vector<Event> log;
  for (int i = 0; i < 300; ++i) {
    const auto trial = static_cast<int64_t>(random() % 4);
    const auto other = static_cast<int64_t>(random() % 4);
    switch (random() % 4) {
      case 0:
        log.push_back(started(trial, concat(other, '/', random() % 300)));
        break;
      case 1:
        log.push_back(
            ended(trial, random() % 2 == 0 ? TrialState::kPaused : TrialState::kComplete));
        break;
      default:
        log.push_back(reported(trial, concat(trial, '/', i)));
    }
  }
  KeptCheckpoints whole(2);
  std::set<std::string> gone;
  for (size_t cut = 0; cut < log.size(); ++cut) {
    whole.add(log[cut]);
    for (const std::string& path : whole.take_needless()) gone.insert(path);
    KeptCheckpoints resumed(2);
    for (size_t i = 0; i <= cut; ++i) resumed.add(log[i]);
    for (const std::string& path : resumed.take_needless()) {
      EXPECT_TRUE(gone.contains(path)) << path;
      EXPECT_FALSE(whole.is_needed(path)) << path;
    }
    for (const std::string& path : gone) EXPECT_EQ(whole.is_needed(path), resumed.is_needed(path));
  }
}

}  // namespace
}  // namespace muster::tune
