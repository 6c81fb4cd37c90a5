// A study from its log: any history, cut anywhere, gives the same core.
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/core/study_core.h"

#include "tests/support/error_of.h"
#include "tests/support/small_specs.h"
#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {
namespace {

using ::testing::HasSubstr;

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
  for (const char* scheduler :
       {"fifo",
        "asha:max_t=9,grace_period=1,reduction_factor=3",
        "asha:variant=promotion,max_t=9,grace_period=1,reduction_factor=3"}) {
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

/// What is stored of the answers and the end when each running trial reports, and then ends.
std::vector<std::string> told_of_all(StudyCore& core) {
  for (const Trial& trial : core.trials()) {
    if (trial.state != TrialState::kRunning) continue;
    core.report(trial.number, loss(0.5, trial.last_t + 1, "c"), 2000);
    core.ended(trial.number, Failure::kNone, "", 2001);
  }
  std::vector<std::string> stored;
  for (const Event& event : core.take_events())
    stored.push_back(concat(event.id, ' ', event.trial, ' ', kind_of(event), payload_text(event)));
  return stored;
}

// As `muster study tell` opens a study: byte for byte what one with its searcher stores.
TEST(StudyCoreReplay, WhoOnlyTellsNeedsNoSearcher) {
  const auto drawn = [](const SearcherEntry& entry) { return !entry.enumerates; };
  for (const std::string& searcher : test::small_specs(searchers(), drawn)) {
    for (uint32_t seed = 0; seed < 3; ++seed) {
      SCOPED_TRACE(concat(searcher, ", ", seed));
      StudySpec spec = spec_with(30, "asha:max_t=9,grace_period=1,reduction_factor=3");
      spec.searcher = searcher;
      spec.failures.fill({.retries = 1, .backoff_s = 0.25});
      Player player(spec, seed, 3);
      player.play(60);
      StudyCore whole(spec), deaf(spec, /*suggests=*/false);
      for (const Event& event : player.log) {
        whole.replay(event);
        deaf.replay(event);
      }
      expect_same(whole, deaf);
      EXPECT_EQ(told_of_all(whole), told_of_all(deaf));
      expect_same(whole, deaf);
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

/// Calls that come from a tuner and from others who ask, in one core.
int64_t ask(StudyCore& core, double now_s) {
  const auto next = core.next(now_s, /*asked=*/true);
  EXPECT_EQ(next.kind, StudyCore::Next::kStart);
  return next.trial;
}

StudyCore replayed(const StudySpec& spec, const std::vector<Event>& log) {
  StudyCore core(spec);
  for (const Event& event : log) core.replay(event);
  return core;
}

TEST(StudyCoreAsked, ATunerDoesNotWaitForWhatOthersHaveAndTheirLeaseEndsWhileItRuns) {
  StudySpec spec = spec_with(2);
  spec.ask_lease_s = 100;
  StudyCore core(spec);
  EXPECT_EQ(ask(core, 0), 0);
  EXPECT_EQ(start(core, 1), 1);
  EXPECT_TRUE(core.is_asked(0));
  EXPECT_FALSE(core.is_asked(1));
  auto next = core.next(2);
  EXPECT_EQ(next.kind, StudyCore::Next::kWait);
  EXPECT_EQ(next.wait_until_s, 100);  // the lease's end, though another trial runs
  core.report(1, loss(1), 3);
  core.ended(1, Failure::kNone, "", 3);
  next = core.next(4);
  EXPECT_EQ(next.kind, StudyCore::Next::kHandedOut);
  EXPECT_EQ(next.wait_until_s, 100);
  core.report(0, loss(1), 60);  // a sign of life
  EXPECT_EQ(core.next(159).kind, StudyCore::Next::kHandedOut);
  EXPECT_EQ(start(core, 160), 0);
  EXPECT_FALSE(core.is_asked(0));
  EXPECT_EQ(trial(core, 0).attempt, 2);
  const StudyCore again = replayed(spec, core.take_events());
  EXPECT_EQ(trial(again, 0).attempt, 2);
}

TEST(StudyCoreAsked, AStoppedTunerEndsAtOnceAndLeavesWhatOthersHave) {
  StudyCore core(spec_with(3));
  EXPECT_EQ(ask(core, 0), 0);
  core.stop("SIGINT", 1);
  EXPECT_EQ(core.next(1).kind, StudyCore::Next::kFinished);
  EXPECT_EQ(trial(core, 0).state, TrialState::kRunning);
  EXPECT_EQ(core.report(0, loss(1), 2).action, Action::kContinue);
}

TEST(StudyCoreAsked, ASearcherThatWaitsForThemIsWaitedFor) {
  StudySpec spec = spec_with(3);
  spec.searcher = "random:max_concurrent=1";
  StudyCore core(spec);
  EXPECT_EQ(ask(core, 0), 0);
  EXPECT_EQ(core.next(1).kind, StudyCore::Next::kWait);
  EXPECT_TRUE(core.next(1).for_asked);  // which the tuner says
  core.report(0, loss(1), 2);
  core.ended(0, Failure::kNone, "", 2);
  EXPECT_EQ(start(core, 3), 1);
}

TEST(StudyCoreRecover, TrialsThatWereAskedForAreLeftAloneForADay) {
  const StudySpec spec = spec_with(10);
  StudyCore core(spec);
  ask(core, 0);
  const std::vector<Event> log = core.take_events();
  for (const double now : {3600., 25 * 3600.}) {
    StudyCore again = replayed(spec, log);
    again.recover(now);
    EXPECT_EQ(trial(again, 0).state, TrialState::kRunning);
    again.stop("to see leases alone", now);
    again.next(now);
    EXPECT_EQ(trial(again, 0).state, now < 24 * 3600 ? TrialState::kRunning : TrialState::kPending);
  }
}

TEST(StudyCoreAsked, WhoHasAskedOnceTakesATunersTrialForATuners) {
  const StudySpec spec = spec_with(5);
  StudyCore tuner(spec), asker(spec);
  const auto tell = [](StudyCore& from, StudyCore& to) {
    for (const Event& event : from.take_events()) to.replay(event);
  };
  ask(asker, 1);
  tell(asker, tuner);
  start(tuner, 2);
  tell(tuner, asker);
  EXPECT_TRUE(asker.is_asked(0));
  EXPECT_FALSE(asker.is_asked(1));
  EXPECT_TRUE(asker.has_lost_attempts());  // were the tuner gone
}

// ---- Attempts that repeat what one before has reported ----

StudySpec spec_with_retries() {
  StudySpec spec = spec_with(1);
  spec.failures.fill({.retries = -1, .backoff_s = 0});
  return spec;
}

TEST(StudyCoreRepeats, ACheckpointOfARepeatedReportIsInTheLog) {
  const StudySpec spec = spec_with_retries();
  StudyCore core(spec);
  start(core);
  for (int64_t t = 1; t <= 5; ++t) core.report(0, loss(1, t, t == 2 ? "c/2" : ""), 1);
  core.ended(0, Failure::kCrash, "killed", 1);
  start(core, 2);
  core.report(0, loss(1, 3), 2);
  core.report(0, loss(1, 4, "c/4"), 2);
  std::vector<Event> log = core.take_events();
  StudyCore again = replayed(spec, log);
  EXPECT_EQ(trial(again, 0).checkpoint, "c/4");
  EXPECT_EQ(trial(again, 0).checkpoint_t, 4);
  EXPECT_EQ(trial(again, 0).reports, 5);
  again.recover(3);
  start(again, 4);
  const auto started = again.take_events().back();
  EXPECT_EQ(std::get<AttemptStarted>(started.what).from_checkpoint, "c/4");
}

TEST(StudyCoreRepeats, ACoreMadeAnewKnowsHowFarAnAttemptWasThatRepeatedItself) {
  const StudySpec spec = spec_with_retries();
  StudyCore core(spec);
  start(core);
  for (int i = 0; i < 4; ++i) core.report(0, loss(1), 1);
  core.ended(0, Failure::kCrash, "killed", 1);
  start(core, 2);
  for (int i = 0; i < 3; ++i) core.report(0, loss(1), 2);  // 1, 2, 3: without steps
  const Unlogged unlogged = core.unlogged();
  ASSERT_EQ(unlogged.attempts.size(), 1u);
  StudyCore again = replayed(spec, core.take_events());
  again.restore(unlogged);
  again.report(0, loss(1), 3);  // 4: as before
  EXPECT_EQ(trial(again, 0).reports, 4);
  again.report(0, loss(1), 3);
  EXPECT_EQ(trial(again, 0).reports, 5);
  EXPECT_EQ(trial(again, 0).last_t, 5);
  EXPECT_TRUE(again.unlogged().attempts.empty());  // the log has it from here on
}

// ---- Points from elsewhere ----

TEST(StudyCoreGiven, PointsFromElsewhereComeFirstOnTopOfTheGridWhichLosesNoneOfItsOwn) {
  StudySpec spec = spec_with(1);
  spec.space = Space({{"a", grid_search({1, 2, 3})}, {"x", uniform(0, 1)}});
  StudyCore plain(spec);
  std::vector<Values> grid;
  for (int i = 0; i < 3; ++i) grid.push_back(trial(plain, start(plain)).values);
  StudyCore core(spec);
  EXPECT_EQ(start(core), 0);
  const auto partial = spec.space.point_of({{"a", 2}});
  core.offer({{.partial = partial, .reason = "enqueued", .adopted = 7}});
  EXPECT_EQ(start(core), 1);
  EXPECT_EQ(trial(core, 1).values[0], Value(2));
  EXPECT_GT(trial(core, 1).values[1].as_double(), 0);  // what was left open is drawn
  core.offer({{.partial = partial, .reason = "enqueued", .adopted = 7}});  // was taken
  EXPECT_EQ(start(core), 2);
  EXPECT_EQ(start(core), 3);
  EXPECT_EQ(trial(core, 0).values[0], grid[0][0]);
  EXPECT_EQ(trial(core, 2).values[0], grid[1][0]);
  EXPECT_EQ(trial(core, 3).values[0], grid[2][0]);
  EXPECT_EQ(core.planned_trials(), 4);
  for (int64_t i = 0; i < 4; ++i) {
    core.report(i, loss(1), 1);
    core.ended(i, Failure::kNone, "", 1);
  }
  EXPECT_EQ(core.next(2).kind, StudyCore::Next::kFinished);
  core.offer({{.partial = partial, .reason = "trial 0 once more"}});
  EXPECT_EQ(start(core, 2), 4);  // also when num_samples are done
  StudyCore again = replayed(spec, core.take_events());
  EXPECT_EQ(trial(again, 1).values, trial(core, 1).values);
  EXPECT_EQ(again.planned_trials(), 5);
  again.offer({{.partial = partial, .reason = "enqueued", .adopted = 7}});
  EXPECT_EQ(again.next(3).kind, StudyCore::Next::kWait);
}

// ---- Time ----

TEST(StudyCoreTime, SessionsBeforeCountToTheirLastEventHoweverLongOthersAskAfterwards) {
  const StudySpec spec = spec_with(10);
  StudyCore core(spec);
  core.note("started", 1000, /*session=*/true);
  start(core, 1010);
  core.report(0, loss(1), 1030);  // then it is killed
  ask(core, 2000);
  core.report(1, loss(1), 5000);
  StudyCore again = replayed(spec, core.take_events());
  EXPECT_EQ(again.used_s(), 0);
  again.note("resumed", 9000, /*session=*/true);
  again.recover(9000);
  EXPECT_EQ(again.used_s(), 30);
  start(again, 9001);
  again.note("resumed", 9500, true);
  EXPECT_EQ(again.used_s(), 31);
}

TEST(StudyCoreReplay, ATrialThatRepeatedItselfWithoutStepsReplays) {
  StudySpec spec = spec_with(1);
  spec.failures.fill({.retries = -1, .backoff_s = 0});
  StudyCore core(spec);
  for (int64_t attempt = 1; attempt <= 3; ++attempt) {
    start(core, 1);
    for (int64_t t = 1; t <= 2 * attempt; ++t) core.report(0, loss(1.0 / double(t)), 1);
    core.ended(0, Failure::kCrash, "killed", 1);
  }
  const StudyCore again = replayed(spec, core.take_events());
  EXPECT_EQ(trial(again, 0).reports, 6);
  EXPECT_EQ(trial(again, 0).last_t, 6);
}

TEST(StudyCoreReplay, AnAlteredValueIsRefused) {
  const StudySpec spec = spec_with(2);
  StudyCore core(spec);
  start(core);
  std::vector<Event> log = core.take_events();
  std::get<TrialAdded>(log[0].what).values[0] = Value(0.5);
  EXPECT_THAT(test::error_of([&] { replayed(spec, log); }), HasSubstr("lr = 0.5"));
}

}  // namespace
}  // namespace muster::tune
