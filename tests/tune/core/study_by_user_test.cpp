// What users order of single trials: Note [Trials that a user holds].
#include <gmock/gmock.h>

#include "muster/base/text.h"

#include "tests/support/error_of.h"
#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

/// The same study from its log, which is as long as nothing was taken.
StudyCore from_its_log(const StudySpec& spec, const std::vector<Event>& events) {
  StudyCore core(spec);
  for (const Event& event : events)
    core.replay(
        event_from(event.id, event.time_s, event.trial, kind_of(event), payload_text(event)));
  return core;
}

TEST(TrialsOfAUser, APauseTakesEffectAtTheNextReportAndIsEndedByItsUserAlone) {
  const StudySpec spec = spec_with(2);
  StudyCore core(spec);
  start(core);
  core.report(0, loss(1, 1, "/c/1"), 1);
  core.pause_trial(0, "paused by hand", 2);
  EXPECT_EQ(trial(core, 0).state, TrialState::kRunning) << "it has more to say";
  const Decision told = core.report(0, loss(0.5, 2, "/c/2"), 3);
  EXPECT_EQ(told.action, Action::kPause);
  EXPECT_EQ(told.reason, "paused by hand");
  core.ended(0, Failure::kNone, "exit code 0", 4);
  EXPECT_EQ(trial(core, 0).state, TrialState::kPaused);
  EXPECT_TRUE(trial(core, 0).held);
  EXPECT_EQ(start(core, 5), 1) << "its slot is free";
  core.report(1, loss(2, 1), 6);
  core.ended(1, Failure::kNone, "", 7);
  EXPECT_EQ(core.next(8).kind, StudyCore::Next::kHeld) << "the study does not end without it";
  core.continue_trial(0, "continued by hand", 9);
  EXPECT_FALSE(trial(core, 0).held);
  EXPECT_EQ(start(core, 9), 0);
  EXPECT_EQ(trial(core, 0).checkpoint, "/c/2");
  EXPECT_EQ(trial(core, 0).attempt, 2);
  EXPECT_EQ(core.report(0, loss(0.4, 3), 10).action, Action::kContinue);
  core.ended(0, Failure::kNone, "", 11);
  EXPECT_EQ(core.next(12).kind, StudyCore::Next::kFinished);
  const StudyCore again = from_its_log(spec, core.take_events());
  EXPECT_EQ(trial(again, 0).state, TrialState::kComplete);
  EXPECT_EQ(trial(again, 0).last_metric, 0.4);
}

TEST(TrialsOfAUser, WithoutACheckpointATrialBeginsAnewAndRepeatsWhatIsKnown) {
  StudyCore core(spec_with(1));
  start(core);
  core.pause_trial(0, "paused", 1);
  const Decision told = core.report(0, loss(1, 3), 2);
  EXPECT_EQ(told.action, Action::kPause);
  EXPECT_THAT(told.reason, HasSubstr("begins anew"));
  core.ended(0, Failure::kNone, "", 3);
  core.continue_trial(0, "on", 4);
  EXPECT_EQ(start(core, 4), 0);
  EXPECT_EQ(core.report(0, loss(1, 3), 5).action, Action::kContinue) << "a repetition";
  EXPECT_EQ(trial(core, 0).reports, 1);
  core.report(0, loss(0.5, 4), 6);
  EXPECT_EQ(trial(core, 0).reports, 2);
}

TEST(TrialsOfAUser, WhatDiesBeforeItsPauseIsHeldAllTheSame) {
  StudySpec spec = spec_with(2);
  spec.failures.fill({.retries = 1, .backoff_s = 50});
  StudyCore core(spec);
  start(core);
  core.report(0, loss(1, 1), 1);
  core.pause_trial(0, "paused", 2);
  core.ended(0, Failure::kCrash, "exit code 1", 3);
  EXPECT_TRUE(trial(core, 0).held);
  EXPECT_EQ(start(core, 1000), 1) << "no retry";
  core.report(1, loss(1, 1), 1001);
  core.ended(1, Failure::kCrash, "exit code 1", 1002);
  core.pause_trial(1, "paused", 1003);  // while it waits for its retry
  EXPECT_TRUE(trial(core, 1).held);
  EXPECT_EQ(core.next(2000).kind, StudyCore::Next::kHeld);
  StudyCore again = from_its_log(spec, core.take_events());
  again.recover(2001);
  EXPECT_EQ(again.next(2001).kind, StudyCore::Next::kHeld) << "whoever runs the study";
  again.continue_trial(1, "on", 2002);
  EXPECT_EQ(start(again, 2002), 1);
  again.pause_trial(1, "paused once more", 2003);
  again.recover(2004);  // its tuner was killed
  EXPECT_TRUE(trial(again, 1).held);
}

TEST(TrialsOfAUser, ASchedulerHearsNothingOfAUsersPause) {
  // Promotion pauses at rungs 1 and 2; trial 0 is held between them.
  StudySpec spec = spec_with(2, "asha:variant=promotion,max_t=4,reduction_factor=2");
  spec.failures.fill({.retries = 1});
  StudyCore core(spec);
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(start(core), i);
    core.report(i, loss(static_cast<double>(1 + i), 1, "/c"), 1);
    core.ended(i, Failure::kNone, "", 1);
  }
  EXPECT_EQ(start(core, 2), 0) << "the best goes on";
  EXPECT_THAT(refusal_of([&] { core.pause_trial(1, "", 2); }),
              HasSubstr("the scheduler has paused"));
  core.pause_trial(0, "held", 2);
  core.ended(0, Failure::kLost, "lost", 3);
  EXPECT_TRUE(trial(core, 0).held);
  EXPECT_EQ(core.next(4).kind, StudyCore::Next::kHeld) << "what is paused may wait for trial 0";
  EXPECT_EQ(trial(core, 1).state, TrialState::kPaused);
  core.continue_trial(0, "on", 5);
  EXPECT_EQ(start(core, 5), 0);
  EXPECT_EQ(core.report(0, loss(0.5, 2, "/c"), 6).action, Action::kPause) << "its rung";
  core.ended(0, Failure::kNone, "", 6);
  EXPECT_FALSE(trial(core, 0).held);
  EXPECT_EQ(core.next(7).kind, StudyCore::Next::kFinished);
  from_its_log(spec, core.take_events());
}

TEST(TrialsOfAUser, AHeldTrialCanBeStoppedAndAnOrderTakenBack) {
  const StudySpec spec = spec_with(2);
  StudyCore core(spec);
  start(core);
  start(core);
  core.pause_trial(0, "paused", 1);
  core.continue_trial(0, "after all not", 2);
  EXPECT_EQ(core.report(0, loss(1, 1), 3).action, Action::kContinue);
  core.pause_trial(0, "paused", 4);
  core.report(0, loss(1, 2), 5);
  core.ended(0, Failure::kNone, "", 6);
  core.stop_trial(0, "enough", 7);
  EXPECT_EQ(trial(core, 0).state, TrialState::kPruned);
  EXPECT_FALSE(trial(core, 0).held);
  core.stop_trial(1, "enough", 8);
  core.ended(1, Failure::kNone, "", 9);
  EXPECT_EQ(core.next(10).kind, StudyCore::Next::kFinished);
  const std::vector<Event> events = core.take_events();
  for (const int64_t number : {0, 1}) {
    bool by_user = false;
    for (const Event& event : events) {
      const auto* ended = std::get_if<AttemptEnded>(&event.what);
      if (ended != nullptr && event.trial == number) by_user = ended->by_user;
    }
    EXPECT_TRUE(by_user) << "trial " << number << " was not stopped by the scheduler";
  }
  from_its_log(spec, events);
}

TEST(TrialsOfAUser, OrdersThatMakeNoSenseAreRefusedInWords) {
  StudyCore core(spec_with(1));
  EXPECT_THAT(refusal_of([&] { core.pause_trial(0, "", 1); }), HasSubstr("0 trials"));
  start(core);
  EXPECT_THAT(refusal_of([&] { core.continue_trial(0, "", 1); }), HasSubstr("it runs"));
  core.pause_trial(0, "", 2);
  EXPECT_THAT(refusal_of([&] { core.pause_trial(0, "", 3); }), HasSubstr("at its next report"));
  core.report(0, loss(1), 4);
  core.ended(0, Failure::kNone, "", 5);
  EXPECT_THAT(refusal_of([&] { core.pause_trial(0, "", 6); }), HasSubstr("it is paused"));
  core.stop_trial(0, "", 7);
  EXPECT_THAT(refusal_of([&] { core.continue_trial(0, "", 8); }), HasSubstr("PRUNED"));
}

// No signal has reached it, wherever it runs.
TEST(StudyCoreAsked, OfATrialWhoseLeaseRunsOutWhileTheTunerStopsTheSignalIsNoReason) {
  StudySpec spec = spec_with(2);
  spec.ask_lease_s = 100;
  StudyCore core(spec);
  core.next(0, /*asked=*/true);
  core.next(1);
  core.stop("SIGINT", 2);
  core.next(100);
  core.ended(1, Failure::kInterrupted, "exit code 1", 101);
  EXPECT_EQ(trial(core, 0).state, TrialState::kPending);
  EXPECT_EQ(trial(core, 0).reason,
            concat("nothing was told of it for ", human_duration(spec.ask_lease_s)));
  EXPECT_EQ(trial(core, 1).reason, "SIGINT (exit code 1)");
}

}  // namespace
}  // namespace muster::tune
