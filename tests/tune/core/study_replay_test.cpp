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

}  // namespace
}  // namespace muster::tune
