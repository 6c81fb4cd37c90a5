// Checkpoints of a study whose trials' folder has moved, and those that are not there.
#include "muster/tune/core/trial_folders.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tune/core/study_core.h"

#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {
namespace {

using ::testing::HasSubstr;

Event note_of(const std::string& folder) {
  return {.what = TunerNote{.text = "started", .session = true, .folder = folder}};
}

std::string put_right(TrialFolders& folders, const std::string& checkpoint) {
  Event event{.trial = 0, .what = CheckpointSaved{.t = 1, .checkpoint = checkpoint}};
  folders.put_right(event);
  return std::get<CheckpointSaved>(event.what).checkpoint;
}

TEST(TrialFolders, APathBelowAPlaceBeforeIsBelowThePresentOne) {
  TrialFolders folders("/new/s-trials/s/");
  Event first = note_of("/old/s-trials/s"), second = note_of("/between");
  folders.put_right(first);
  folders.put_right(second);
  EXPECT_TRUE(folders.has_moved());
  EXPECT_EQ(put_right(folders, "/old/s-trials/s/trial-0/3"), "/new/s-trials/s/trial-0/3");
  EXPECT_EQ(put_right(folders, "/between/trial-0/3"), "/new/s-trials/s/trial-0/3");
  EXPECT_EQ(put_right(folders, "/old/s-trials/s2/3"), "/old/s-trials/s2/3");
  EXPECT_EQ(put_right(folders, "/elsewhere/3"), "/elsewhere/3");
}

TEST(TrialFolders, OfFoldersWithinEachOtherTheInnermostCounts) {
  TrialFolders inner("/s/in/here");
  Event outer_note = note_of("/s"), inner_note = note_of("/s/in");
  inner.put_right(outer_note);
  inner.put_right(inner_note);
  EXPECT_EQ(put_right(inner, "/s/trial-0/3"), "/s/in/here/trial-0/3");
  EXPECT_EQ(put_right(inner, "/s/in/trial-0/3"), "/s/in/here/trial-0/3");
  EXPECT_EQ(put_right(inner, "/s/in/here/trial-0/3"), "/s/in/here/trial-0/3");
}

TEST(TrialFolders, OfAStudyWithoutFilesPathsStay) {
  TrialFolders folders("");
  Event first = note_of("/old");
  folders.put_right(first);
  EXPECT_FALSE(folders.has_moved());
  EXPECT_FALSE(folders.has_places_before());
  EXPECT_EQ(put_right(folders, "/old/3"), "/old/3");
}

StudySpec spec_in(const std::string& folder) {
  StudySpec spec = spec_with(1);
  spec.trial_folder = folder;
  for (FailurePolicy& policy : spec.failures) policy.retries = 2;
  return spec;
}

/// One trial with three checkpoints whose attempt has crashed.
std::vector<Event> crashed() {
  StudyCore core(spec_in("/old"));
  core.note("started", 0, /*session=*/true);
  start(core);
  for (int64_t t = 1; t <= 3; ++t) core.report(0, loss(1, t, concat("/old/trial-0/", t)), 1);
  core.ended(0, Failure::kCrash, "exit code 1", 2);
  return core.take_events();
}

TEST(TrialFolders, AStudyGoesOnWhereItsFilesAre) {
  StudyCore core(spec_in("/new"));
  for (const Event& event : crashed()) core.replay(event);
  core.note("resumed", 100, /*session=*/true);
  EXPECT_EQ(trial(core, 0).checkpoint, "/new/trial-0/3");
  start(core, 200);
  const auto events = core.take_events();
  EXPECT_EQ(std::get<TunerNote>(events[0].what).folder, "/new");
  EXPECT_EQ(std::get<AttemptStarted>(events[1].what).from_checkpoint, "/new/trial-0/3");
}

TEST(TrialFolders, OnlyATunerAtANewPlaceSaysWhere) {
  StudyCore core(spec_in("/old"));
  for (const Event& event : crashed()) core.replay(event);
  core.note("resumed", 100, /*session=*/true);
  EXPECT_EQ(std::get<TunerNote>(core.take_events()[0].what).folder, "");
}

// A study that no tuner has run yet.
TEST(TrialFolders, WhoAsksFirstSaysWhereItIs) {
  StudyCore core(spec_in("/old"));
  EXPECT_TRUE(core.has_moved()) << "the log names no place";
  core.note_place(1);
  EXPECT_FALSE(core.has_moved());
  core.next(2, /*asked=*/true);
  core.report(0, loss(1, 1, "/old/trial-0/1"), 3);
  core.note("started", 4, /*session=*/true);
  const std::vector<Event> log = core.take_events();
  EXPECT_EQ(std::get<TunerNote>(log.back().what).folder, "") << "it is named once";
  StudyCore moved(spec_in("/new"));
  for (const Event& event : log) moved.replay(event);
  EXPECT_TRUE(moved.has_moved());
  EXPECT_EQ(trial(moved, 0).checkpoint, "/new/trial-0/1");
  EXPECT_FALSE(StudyCore(spec_in("")).has_moved()) << "it has no files";
}

// Who asked at a second place wrote its paths; at a third one they were nobody's.
TEST(TrialFolders, WhoAsksAtANewPlaceSaysWhereItIs) {
  std::vector<Event> log = crashed();
  StudyCore second(spec_in("/second"));
  for (const Event& event : log) second.replay(event);
  ASSERT_TRUE(second.has_moved());
  second.note_place(100);
  EXPECT_FALSE(second.has_moved());
  start(second, 200);
  for (const Event& event : second.take_events()) log.push_back(event);
  EXPECT_EQ(std::get<AttemptStarted>(log.back().what).from_checkpoint, "/second/trial-0/3");
  StudyCore third(spec_in("/third"));
  for (const Event& event : log) third.replay(event);
  EXPECT_EQ(trial(third, 0).checkpoint, "/third/trial-0/3");
}

TEST(TrialFolders, AReportOfAnOldPlaceIsTakenAsWhoReplaysItTakesIt) {
  std::vector<Event> log = crashed();
  StudyCore core(spec_in("/new"));
  for (const Event& event : log) core.replay(event);
  core.note("resumed", 100, /*session=*/true);
  start(core, 200);
  core.report(0, loss(1, 4, "/old/trial-0/4"), 201);
  EXPECT_EQ(trial(core, 0).checkpoint, "/new/trial-0/4");
  for (const Event& event : core.take_events()) log.push_back(event);
  StudyCore again(spec_in("/new"));
  for (const Event& event : log) again.replay(event);
  EXPECT_EQ(trial(again, 0).checkpoint, "/new/trial-0/4");
}

/// Goes on from the crash with these checkpoints; the log from there.
std::vector<Event> gone_on_with(const std::string& there, StudyCore& core) {
  for (const Event& event : crashed()) core.replay(event);
  const auto next = core.next(200, false, false, [&](const std::string& path) {
    return there.find(path.back()) != there.npos;
  });
  EXPECT_EQ(next.kind, StudyCore::Next::kStart);
  core.report(0, loss(1), 201);
  return core.take_events();
}

TEST(MissingCheckpoints, TheNewestThatIsThereIsGoneOnFromAndReportsAreCountedFromThere) {
  for (const auto& [there, from, t] : {std::tuple{"123", "/old/trial-0/3", 4},
                                       {"12", "/old/trial-0/2", 3},
                                       {"1", "/old/trial-0/1", 2},
                                       {"", "", 1}}) {
    StudyCore core(spec_in("/old"));
    const std::vector<Event> events = gone_on_with(there, core);
    const auto& started = std::get<AttemptStarted>(events[0].what);
    EXPECT_EQ(started.from_checkpoint, from);
    if (t < 4) {
      EXPECT_THAT(started.reason, HasSubstr("/old/trial-0/3 is not there any more"));
    }
    EXPECT_EQ(trial(core, 0).checkpoint, from);
    const bool is_new = t == 4;  // what is repeated makes no event
    EXPECT_EQ(events.size(), is_new ? 2U : 1U);
    StudyCore again(spec_in("/old"));
    for (const Event& event : crashed()) again.replay(event);
    for (const Event& event : events) again.replay(event);
    EXPECT_EQ(trial(again, 0).checkpoint, from);
    EXPECT_EQ(trial(again, 0).checkpoint_t, trial(core, 0).checkpoint_t);
  }
}

TEST(MissingCheckpoints, WithoutALookNoneIsMissed) {
  StudyCore core(spec_in("/old"));
  for (const Event& event : crashed()) core.replay(event);
  start(core, 200);
  EXPECT_EQ(trial(core, 0).checkpoint, "/old/trial-0/3");
}

}  // namespace
}  // namespace muster::tune
