// The study as a state machine, driven by hand and by random histories.
#include "muster/tune/study_core.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace muster::tune {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

StudySpec spec_with(int64_t samples, const std::string& scheduler = "fifo") {
  StudySpec spec{.name = "test", .metric = "loss", .mode = Mode::kMin};
  spec.space = Space({{"lr", loguniform(1e-4, 1e-1)}, {"l1", sample_from("2 ** randint(2, 9)")}});
  spec.num_samples = samples;
  spec.scheduler = scheduler;
  spec.seed = 7;
  return spec;
}

Report loss(double value, std::optional<int64_t> step = {}, const std::string& checkpoint = "") {
  return {.step = step, .metrics = {{"loss", value}}, .checkpoint = checkpoint};
}

int64_t start(StudyCore& core, double now_s = 0) {
  const auto next = core.next(now_s);
  EXPECT_EQ(next.kind, StudyCore::Next::kStart);
  return next.trial;
}

const Trial& trial(const StudyCore& core, int64_t number) {
  return core.trials()[static_cast<size_t>(number)];
}

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
  EXPECT_THAT(refusal, HasSubstr("did you mean \"los\"?"));
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
  EXPECT_EQ(failing.report(0, loss(kNan), 1).action, Action::kStop);
  failing.ended(0, Failure::kCrash, "exit code 1", 2);
  EXPECT_EQ(trial(failing, 0).failure, Failure::kNan);
  EXPECT_EQ(trial(failing, 0).state, TrialState::kFailed);
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
  StudyCore core(spec_with(4, "asha:type=promotion,max_t=4,grace_period=1,reduction_factor=2"));
  start(core);
  const Decision decision = core.report(0, loss(0.5), 1);
  EXPECT_EQ(decision.action, Action::kStop);
  EXPECT_THAT(decision.reason, HasSubstr("no checkpoint"));
  core.ended(0, Failure::kNone, "", 2);
  EXPECT_EQ(trial(core, 0).state, TrialState::kFailed);
}

TEST(StudyCore, PausedTrialsThatAreNeverPromotedArePrunedAtTheEnd) {
  StudyCore core(spec_with(3, "asha:type=promotion,max_t=4,grace_period=1,reduction_factor=3"));
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

// ---- Replay: any history, cut anywhere, gives the same core ----

/// Plays a study with `slots` slots and random ends; the trials' metrics depend on trial and t
/// only.
class Player {
 public:
  Player(const StudySpec& spec, uint32_t seed, int64_t slots)
      : core(spec), random_(seed), slots_(slots) {}

  void play(int64_t calls) {
    for (int64_t i = 0; i < calls; ++i) {
      now_ += 0.125;
      if (static_cast<int64_t>(running_.size()) < slots_ && random_() % 2 == 0) {
        const auto next = core.next(now_);
        if (next.kind == StudyCore::Next::kStart) running_.push_back(next.trial);
      } else if (!running_.empty()) {
        step(random_() % running_.size());
      }
      for (Event& event : core.take_events()) log.push_back(std::move(event));
    }
  }

  StudyCore core;
  std::vector<Event> log;

 private:
  void step(size_t slot) {
    const int64_t number = running_[slot];
    if (random_() % 13 == 0) return end(slot, Failure::kCrash);
    const int64_t t = trial(core, number).last_t + 1 + static_cast<int64_t>(random_() % 2);
    const double value = std::sin(static_cast<double>(17 * number + t)) / static_cast<double>(t);
    const Decision decision = core.report(number, loss(value, t, "c"), now_);
    if (decision.action != Action::kContinue) end(slot, Failure::kNone);
  }

  void end(size_t slot, Failure failure) {
    core.ended(running_[slot], failure, "an end", now_);
    running_.erase(running_.begin() + static_cast<int64_t>(slot));
  }

  std::mt19937 random_;
  int64_t slots_;
  double now_ = 1000;
  std::vector<int64_t> running_;
};

void expect_same(const StudyCore& a, const StudyCore& b) {
  ASSERT_EQ(a.trials().size(), b.trials().size());
  for (size_t i = 0; i < a.trials().size(); ++i) {
    const Trial &x = a.trials()[i], &y = b.trials()[i];
    EXPECT_EQ(x.state, y.state) << i;
    EXPECT_EQ(x.values, y.values) << i;
    EXPECT_EQ(x.last_t, y.last_t) << i;
    EXPECT_EQ(x.reports, y.reports) << i;
    EXPECT_EQ(x.attempt, y.attempt) << i;
    EXPECT_EQ(x.reason, y.reason) << i;
    EXPECT_EQ(x.run_s, y.run_s) << i;
    EXPECT_EQ(x.due_s, y.due_s) << i;
  }
  EXPECT_EQ(a.scheduler_status(), b.scheduler_status());
}

TEST(StudyCoreReplay, AnyHistoryGivesTheSameCoreAndTheSameFuture) {
  for (const char* scheduler : {"fifo",
                                "asha:max_t=9,grace_period=1,reduction_factor=3",
                                "asha:type=promotion,max_t=9,grace_period=1,reduction_factor=3"}) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
      StudySpec spec = spec_with(30, scheduler);
      spec.failures.fill({.retries = 1, .backoff_s = 0.25});
      Player player(spec, seed, 1 + seed % 4);
      player.play(10 + 20 * seed);
      StudyCore again(spec);
      for (const Event& event : player.log) again.replay(event);
      expect_same(player.core, again);
      const auto a = player.core.next(1e6), b = again.next(1e6);
      EXPECT_EQ(a.kind, b.kind);
      EXPECT_EQ(a.trial, b.trial);
    }
  }
}

TEST(StudyCoreReplay, AnotherDecisionIsAnInternalErrorThatNamesTheEvent) {
  Player player(spec_with(5), 1, 1);
  player.play(40);
  StudyCore again(spec_with(5));
  for (Event& event : player.log) {
    if (auto* reported = std::get_if<Reported>(&event.what)) {
      reported->decision = {.action = Action::kStop, .reason = "made up"};
      try {
        again.replay(event);
        FAIL() << "nothing was thrown";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInternal);
        EXPECT_THAT(error.what(), HasSubstr(concat("event ", event.id)));
        EXPECT_THAT(error.what(), HasSubstr("made up"));
      }
      return;
    }
    again.replay(event);
  }
  FAIL() << "no report was played";
}

TEST(StudyCoreRecover, RunningTrialsGoOnFreeOfChargeAndAnsweredOnesEndAsTheyWereTold) {
  StudySpec spec = spec_with(10, "asha:max_t=8,grace_period=1,reduction_factor=2");
  StudyCore core(spec);
  start(core);
  core.report(0, loss(0.5), 1);
  start(core);
  ASSERT_EQ(core.report(1, loss(0.9), 1).action, Action::kStop);
  const std::vector<Event> log = core.take_events();
  StudyCore again(spec);
  for (const Event& event : log) again.replay(event);
  again.recover(100);
  EXPECT_EQ(trial(again, 0).state, TrialState::kPending);
  EXPECT_EQ(trial(again, 0).failure, Failure::kInterrupted);
  EXPECT_EQ(trial(again, 1).state, TrialState::kPruned);
  EXPECT_EQ(start(again, 100), 0);
}

TEST(StudyCoreRecover, TrialsThatWereAskedForAreLeftAloneForADay) {
  StudySpec spec = spec_with(10);
  StudyCore core(spec);
  ASSERT_EQ(core.next(0, /*asked=*/true).kind, StudyCore::Next::kStart);
  const std::vector<Event> log = core.take_events();
  for (const double now : {3600., 25 * 3600.}) {
    StudyCore again(spec);
    for (const Event& event : log) again.replay(event);
    again.recover(now);
    EXPECT_EQ(trial(again, 0).state, now < 24 * 3600 ? TrialState::kRunning : TrialState::kPending);
  }
}

// ---- What a resumed study may change ----

TEST(StudyDescription, TellsASpaceThatChangedFromOneThatDidNot) {
  const Json stored = StudyCore(spec_with(5)).describe();
  EXPECT_TRUE(describe_differences(stored, StudyCore(spec_with(50)).describe()).empty());
  StudySpec other = spec_with(5);
  other.space = Space({{"lr", loguniform(1e-5, 1e-1)}, {"l2", uniform(0, 1)}});
  other.metric = "accuracy";
  const auto lines = describe_differences(stored, StudyCore(other).describe());
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("+ metric = \"accuracy\"")));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("- lr")));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("+ l2")));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("- l1")));
}

}  // namespace
}  // namespace muster::tune
