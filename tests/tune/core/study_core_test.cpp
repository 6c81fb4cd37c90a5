// The study as a state machine, driven by hand.
#include "muster/tune/core/study_core.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {
namespace {

using test::refusal_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StudyCore, RunsTheTrialsThatWereAskedForAndFinishes) {
  StudyCore core(spec_with(2));
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(start(core), i);
    EXPECT_EQ(core.report(i, loss(1.0 - 0.1 * static_cast<double>(i)), 1).action,
              Action::kContinue);
    core.ended(i, Failure::kNone, "", 2);
    EXPECT_EQ(trial(core, i).state, TrialState::kComplete);
  }
  EXPECT_EQ(core.next(3).kind, StudyCore::Next::kFinished);
  ASSERT_NE(core.best(), nullptr);
  EXPECT_EQ(core.best()->number, 1);
  EXPECT_EQ(core.result(*core.best()), 0.9);
}

TEST(StudyCore, CountsReportsThatHaveNoStep) {
  StudyCore core(spec_with(1));
  start(core);
  core.report(0, loss(3), 1);
  core.report(0, loss(2), 2);
  EXPECT_EQ(trial(core, 0).last_t, 2);
  EXPECT_THAT(refusal_of([&] { core.report(0, loss(2, 2), 3); }),
              HasSubstr("above the one before"));
  core.report(0, loss(1, 10), 3);
  EXPECT_EQ(trial(core, 0).last_t, 10);
}

TEST(StudyCore, FindsAMisspeltMetricAtTheFirstReport) {
  StudyCore core(spec_with(1));
  start(core);
  const std::string refusal = refusal_of([&] { core.report(0, {.metrics = {{"los", 0.5}}}, 1); });
  EXPECT_THAT(refusal, HasSubstr("\"loss\""));
  EXPECT_THAT(refusal,
              HasSubstr("let the trial report \"loss\", or the study have metric = \"los\""));
  core.ended(0, Failure::kNone, "", 2);
  EXPECT_EQ(trial(core, 0).state, TrialState::kFailed);
  EXPECT_THAT(trial(core, 0).reason, HasSubstr("\"loss\""));
}

TEST(StudyCore, ALaterReportMayLackTheMetric) {
  StudyCore core(spec_with(1));
  start(core);
  core.report(0, loss(0.5), 1);
  const Decision decision = core.report(0, {.metrics = {{"accuracy", 0.5}}}, 2);
  EXPECT_EQ(decision.action, Action::kContinue);
  EXPECT_THAT(decision.reason, HasSubstr("no loss"));
  EXPECT_EQ(trial(core, 0).last_metric, 0.5);
}

TEST(StudyCore, ATrialThatNeverReportsFailsAndSaysSo) {
  StudyCore core(spec_with(1));
  start(core);
  core.ended(0, Failure::kNone, "", 1);
  EXPECT_EQ(trial(core, 0).state, TrialState::kFailed);
  EXPECT_THAT(trial(core, 0).reason, HasSubstr("without a report of loss"));
  EXPECT_EQ(core.best(), nullptr);
}

TEST(StudyCore, NamesTheCauseOfAnEndAndNotItsVictim) {
  StudyCore core(spec_with(2));
  start(core), start(core);
  core.ended(0, Failure::kNone, "exit code 0; a line on stdout is no report: why", 1);
  EXPECT_EQ(trial(core, 0).reason,
            "ended without a report of loss (exit code 0; a line on stdout is no report: why)");
  core.stop("time budget of 1s used up", 2);
  core.ended(1, Failure::kInterrupted, "exit code 3", 2);
  EXPECT_EQ(trial(core, 1).state, TrialState::kPending);
  EXPECT_EQ(trial(core, 1).reason, "time budget of 1s used up (exit code 3)");
}

TEST(StudyCore, RetriesByThePolicyOfTheFailureWithBackOff) {
  StudySpec spec = spec_with(1);
  spec.failures[static_cast<size_t>(Failure::kCrash)] = {.retries = 2, .backoff_s = 10};
  StudyCore core(spec);
  start(core, 0);
  core.ended(0, Failure::kCrash, "exit code 1", 5);
  EXPECT_EQ(trial(core, 0).state, TrialState::kPending);
  EXPECT_EQ(core.next(6).wait_until_s, 15);
  EXPECT_EQ(start(core, 15), 0);
  core.ended(0, Failure::kCrash, "exit code 1", 16);
  EXPECT_EQ(core.next(16).wait_until_s, 36);  // twice the first
  start(core, 36);
  EXPECT_EQ(trial(core, 0).attempt, 3);
  core.ended(0, Failure::kOutOfMemory, "CUDA out of memory", 40);
  EXPECT_EQ(trial(core, 0).state, TrialState::kFailed);  // another class, without retries
  EXPECT_EQ(trial(core, 0).failure, Failure::kOutOfMemory);
}

TEST(StudyCore, ARestartedTrialIsNotCountedTwice) {
  StudySpec spec = spec_with(1);
  spec.failures.fill({.retries = 1, .backoff_s = 0});
  StudyCore core(spec);
  start(core);
  for (int64_t step = 1; step <= 3; ++step)
    core.report(0, loss(1.0 / static_cast<double>(step)), 1);
  core.ended(0, Failure::kCrash, "exit code 1", 2);
  start(core, 2);
  core.take_events();
  for (int64_t step = 1; step <= 3; ++step)
    EXPECT_EQ(core.report(0, loss(99), 3).action, Action::kContinue);
  EXPECT_TRUE(core.take_events().empty());
  EXPECT_EQ(trial(core, 0).last_metric, 1.0 / 3);
  core.report(0, loss(0.25), 4);
  EXPECT_EQ(trial(core, 0).reports, 4);
}

TEST(StudyCore, ARetryGoesOnFromTheNewestCheckpoint) {
  StudySpec spec = spec_with(1);
  spec.failures.fill({.retries = 1, .backoff_s = 0});
  StudyCore core(spec);
  start(core);
  core.report(0, loss(3), 1);
  core.report(0, loss(2, {}, "checkpoints/2"), 1);
  core.report(0, loss(1), 1);
  core.ended(0, Failure::kCrash, "killed", 2);
  start(core, 2);
  EXPECT_EQ(trial(core, 0).checkpoint, "checkpoints/2");
  core.report(0, loss(1), 3);  // the third report again
  EXPECT_EQ(trial(core, 0).reports, 3);
  core.report(0, loss(0.5), 3);
  EXPECT_EQ(trial(core, 0).last_t, 4);
}

TEST(StudyCore, NanIsTheWorstScoreOrAFailureAsOneLikes) {
  StudyCore core(spec_with(1));
  start(core);
  EXPECT_EQ(core.report(0, loss(kNan), 1).action, Action::kContinue);
  StudySpec strict = spec_with(1);
  strict.nan_is_failure = true;
  StudyCore failing(strict);
  start(failing);
  const Decision stop = failing.report(0, loss(kNan), 1);
  EXPECT_EQ(stop.action, Action::kStop);
  EXPECT_EQ(stop.reason, "loss is nan at step 1");
  failing.ended(0, Failure::kCrash, "exit code 1", 2);
  EXPECT_EQ(trial(failing, 0).failure, Failure::kNan);
  EXPECT_EQ(trial(failing, 0).state, TrialState::kFailed);
}

TEST(StudyCore, AStopCriterionOnAMetricThatNobodyReportsIsRefused) {
  StudySpec spec = spec_with(-1);
  spec.stop = {
      {.metric = "los", .comparison = StopCriterion::Comparison::kLessEqual, .bound = 0.1}};
  StudyCore core(spec);
  start(core);
  EXPECT_THAT(refusal_of([&] { core.report(0, loss(0.5), 1); }),
              AllOf(HasSubstr("it has the metric \"los\" of a stop criterion (got loss)"),
                    HasSubstr("did you mean \"loss\"?")));
}

TEST(StudyCore, AStopCriterionCompletesATrialAndTheSchedulerPrunesOne) {
  StudySpec spec = spec_with(-1, "asha:max_t=10,grace_period=1,reduction_factor=2");
  spec.stop = {
      {.metric = "loss", .comparison = StopCriterion::Comparison::kLessEqual, .bound = 0.1}};
  StudyCore core(spec);
  start(core);
  EXPECT_EQ(core.report(0, loss(0.5), 1).action, Action::kContinue);
  start(core);
  const Decision worse = core.report(1, loss(0.9), 1);
  EXPECT_EQ(worse.action, Action::kStop);
  EXPECT_THAT(worse.reason, HasSubstr("rung 1"));
  core.ended(1, Failure::kCrash, "exit code 143", 2);  // after a stop any end is fine
  EXPECT_EQ(trial(core, 1).state, TrialState::kPruned);
  const Decision done = core.report(0, loss(0.05), 2);
  EXPECT_EQ(done.action, Action::kStop);
  EXPECT_TRUE(done.complete);
  core.ended(0, Failure::kNone, "", 3);
  EXPECT_EQ(trial(core, 0).state, TrialState::kComplete);
}

TEST(StudyCore, APausedTrialNeedsACheckpoint) {
  StudyCore core(spec_with(4, "asha:variant=promotion,max_t=4,grace_period=1,reduction_factor=2"));
  start(core);
  const Decision decision = core.report(0, loss(0.5), 1);
  EXPECT_EQ(decision.action, Action::kStop);
  EXPECT_THAT(decision.reason, HasSubstr("no checkpoint"));
  core.ended(0, Failure::kNone, "", 2);
  EXPECT_EQ(trial(core, 0).state, TrialState::kFailed);
}

TEST(StudyCore, PausedTrialsThatAreNeverPromotedArePrunedAtTheEnd) {
  StudyCore core(spec_with(3, "asha:variant=promotion,max_t=4,grace_period=1,reduction_factor=3"));
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(start(core), i);
    EXPECT_EQ(core.report(i, loss(static_cast<double>(i + 1), 1, "c"), 1).action, Action::kPause);
    core.ended(i, Failure::kNone, "", 1);
  }
  EXPECT_EQ(start(core, 2), 0);  // the best third goes on
  EXPECT_EQ(trial(core, 0).attempt, 2);
  core.report(0, loss(0.5, 3, "c3"), 3);
  core.ended(0, Failure::kNone, "", 3);
  while (core.next(4).kind == StudyCore::Next::kStart) {
    core.report(0, loss(0.4, 4, "c4"), 4);
    core.ended(0, Failure::kNone, "", 4);
  }
  EXPECT_EQ(trial(core, 1).state, TrialState::kPruned);
  EXPECT_EQ(trial(core, 2).state, TrialState::kPruned);
}

TEST(StudyCore, AStoppedStudyStartsNothingAndLeavesItsTrialsToBeResumed) {
  StudyCore core(spec_with(5));
  start(core);
  core.report(0, loss(1), 1);
  core.stop("interrupted", 2);
  EXPECT_EQ(core.next(2).kind, StudyCore::Next::kWait);
  core.ended(0, Failure::kCrash, "killed by SIGTERM", 3);
  EXPECT_EQ(core.next(3).kind, StudyCore::Next::kFinished);
  EXPECT_EQ(trial(core, 0).state, TrialState::kPending);
}

TEST(StudyCore, OneTrialCanBeStoppedInAnyState) {
  StudySpec spec = spec_with(10);
  spec.failures.fill({.retries = 1, .backoff_s = 50});
  StudyCore core(spec);
  for (int64_t i = 0; i < 2; ++i) {
    start(core);
    core.report(i, loss(1), 1);
  }
  core.ended(1, Failure::kCrash, "exit code 1", 2);
  core.stop_trial(0, "enough of it", 3);
  core.stop_trial(1, "enough of it", 3);  // waits for its retry
  EXPECT_EQ(core.report(0, loss(0.5), 4).action, Action::kStop);
  core.ended(0, Failure::kCrash, "killed by SIGTERM", 5);
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(trial(core, i).state, TrialState::kPruned);
    EXPECT_EQ(trial(core, i).reason, "enough of it");
  }
  EXPECT_EQ(start(core, 100), 2);  // no retry of trial 1
  EXPECT_THAT(refusal_of([&] { core.stop_trial(0, "", 6); }), HasSubstr("over"));
  EXPECT_THAT(refusal_of([&] { core.stop_trial(7, "", 6); }), HasSubstr("cannot be stopped"));
  StudyCore again(spec);
  for (const Event& event : core.take_events()) again.replay(event);
  EXPECT_EQ(trial(again, 0).state, TrialState::kPruned);
  EXPECT_EQ(trial(again, 1).reason, "enough of it");
}

TEST(StudyCore, ARetryIsDueWhateverElseRuns) {
  StudySpec spec = spec_with(2);
  spec.failures.fill({.retries = 1, .backoff_s = 10});
  StudyCore core(spec);
  start(core);
  start(core);
  core.report(0, loss(1), 1);
  core.ended(0, Failure::kCrash, "exit code 1", 5);
  const auto next = core.next(6);
  EXPECT_EQ(next.kind, StudyCore::Next::kWait);
  EXPECT_EQ(next.wait_until_s, 15);
}

TEST(StudyCore, OneThatEndsWellAfterTheStopIsCompleteAndOneThatWasEndedGoesOn) {
  StudyCore core(spec_with(5));
  for (int64_t i = 0; i < 2; ++i) {
    start(core);
    core.report(i, loss(1), 1);
  }
  core.stop("time budget", 2);
  core.ended(0, Failure::kNone, "exit code 0", 3);
  core.ended(1, Failure::kInterrupted, "exit code 0", 3);
  EXPECT_EQ(trial(core, 0).state, TrialState::kComplete);
  EXPECT_EQ(trial(core, 1).state, TrialState::kPending);
}

TEST(StudyCore, WithFailFastTheFirstFailureForGoodEndsTheStudy) {
  StudySpec spec = spec_with(-1);
  spec.fail_fast = true;
  spec.failures.fill({.retries = 1, .backoff_s = 0});
  StudyCore core(spec);
  start(core);
  start(core);
  core.report(1, loss(1), 1);
  core.ended(0, Failure::kCrash, "exit code 1", 1);
  EXPECT_FALSE(core.is_stopped());  // has another attempt
  EXPECT_EQ(start(core, 1), 0);
  core.ended(0, Failure::kCrash, "exit code 1", 2);
  EXPECT_EQ(core.stop_reason(), "trial 0 failed (crash): exit code 1");
  EXPECT_TRUE(core.has_given_up());
  EXPECT_EQ(core.next(2).kind, StudyCore::Next::kWait);  // trial 1 is to be told
  core.ended(1, Failure::kInterrupted, "", 3);
  EXPECT_EQ(core.next(3).kind, StudyCore::Next::kFinished);
  StudyCore again(spec);
  for (const Event& event : core.take_events()) again.replay(event);
  EXPECT_TRUE(again.has_given_up());  // so it is for all who have the study open
  again.note("resumed", 4, /*session=*/true);
  EXPECT_FALSE(again.is_stopped());  // the next tuner goes on
  EXPECT_EQ(again.next(4).kind, StudyCore::Next::kStart);
}

TEST(StudyCore, FailuresCountWhoeverRanTheTrialsUntilSomebodyWantsItAllTheSame) {
  StudySpec spec = spec_with(-1);
  spec.give_up_after = 3;
  std::vector<Event> log;
  // Each call in a process of its own, as `muster study ask` and `tell` are.
  const auto in_another_process = [&](auto call) {
    StudyCore core(spec);
    for (const Event& event : log) core.replay(event);
    call(core);
    for (Event& event : core.take_events()) log.push_back(std::move(event));
  };
  for (int64_t i = 0; i < 3; ++i) {
    in_another_process([&](StudyCore& core) {
      ASSERT_EQ(core.next(1, /*asked=*/true).kind, StudyCore::Next::kStart);
      EXPECT_FALSE(core.has_given_up());
    });
    in_another_process([&](StudyCore& core) { core.ended(i, Failure::kCrash, "no such file", 1); });
  }
  const auto* note = std::get_if<TunerNote>(&log.back().what);
  ASSERT_NE(note, nullptr);
  EXPECT_THAT(note->text, HasSubstr("stopping: 3 trials failed without one report"));
  in_another_process([](StudyCore& core) {
    EXPECT_TRUE(core.has_given_up());
    EXPECT_EQ(core.next(2, true).kind, StudyCore::Next::kFinished);
    core.forgive("once more", 3);
  });
  in_another_process([](StudyCore& core) {
    EXPECT_FALSE(core.is_stopped());
    EXPECT_EQ(core.next(4, true).kind, StudyCore::Next::kStart);
  });
}

TEST(StudyCore, AnAskedTrialThatFailsWhenTheStudyIsGivenUpHasFailed) {
  StudySpec spec = spec_with(-1);
  spec.fail_fast = true;
  StudyCore core(spec);
  core.next(1, /*asked=*/true);
  core.next(1, /*asked=*/true);
  core.ended(0, Failure::kCrash, "boom", 2);
  ASSERT_TRUE(core.has_given_up());
  core.ended(1, Failure::kCrash, "boom", 3);
  EXPECT_EQ(trial(core, 1).state, TrialState::kFailed);
}

TEST(StudyCore, AStudyWithoutEndWhoseTrialsAllFailWithoutAReportEnds) {
  StudySpec spec = spec_with(-1);
  spec.give_up_after = 4;
  StudyCore core(spec);
  int64_t trials = 0;
  for (; core.next(1).kind == StudyCore::Next::kStart; ++trials)
    core.ended(trials, Failure::kCrash, "exit code 127", 1);
  EXPECT_EQ(trials, 4);
  EXPECT_THAT(core.stop_reason(), HasSubstr("4 trials failed without one report; trial 3 failed"));
  StudyCore heard(spec);
  start(heard);
  heard.report(0, loss(1), 1);
  heard.ended(0, Failure::kCrash, "exit code 1", 1);
  for (int64_t i = 1; i < 20; ++i) heard.ended(start(heard, 2), Failure::kCrash, "exit code 1", 2);
  EXPECT_FALSE(heard.is_stopped());  // some do report: the space has points that fail
}

TEST(StudyCore, OfEqualResultsTheFirstTrialIsTheBestWhoeverEndsFirst) {
  StudyCore core(spec_with(3));
  for (int64_t i = 0; i < 3; ++i) core.report(start(core), loss(i == 2 ? 2 : 1), 1);
  for (const int64_t i : {2, 1, 0}) core.ended(i, Failure::kNone, "", 2);
  EXPECT_EQ(core.best()->number, 0);
}

TEST(StudyCore, ATrialWhoseLastReportWasRefusedIsNotComplete) {
  StudyCore core(spec_with(1));
  start(core);
  core.report(0, loss(1, 5), 1);
  EXPECT_THROW(core.report(0, loss(0.5, 5), 2), Error);  // its step does not rise
  core.ended(0, Failure::kNone, "exit code 0", 3);       // `muster report … || exit 0`
  EXPECT_EQ(trial(core, 0).state, TrialState::kFailed);
  EXPECT_THAT(trial(core, 0).reason, HasSubstr("step is above"));
}

TEST(StudyCore, ACompleteTrialKeepsNoReasonOfAFailureBefore) {
  StudySpec spec = spec_with(1);
  spec.failures.fill({.retries = 1, .backoff_s = 0});
  StudyCore core(spec);
  start(core);
  core.ended(0, Failure::kCrash, "boom", 1);
  start(core, 1);
  core.report(0, loss(1), 2);
  core.ended(0, Failure::kNone, "", 3);
  EXPECT_EQ(trial(core, 0).reason, "");
}

}  // namespace
}  // namespace muster::tune
