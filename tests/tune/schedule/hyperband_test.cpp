#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tune/schedule/hyperband/brackets.h"
#include "muster/tune/schedule/hyperband/hyperband_options.h"
#include "muster/tune/schedule/scheduler.h"

#include "tests/support/error_of.h"
#include "tests/support/numbers.h"

namespace muster::tune {
namespace {

using test::kNan;
using test::refusal_of;
using ::testing::HasSubstr;

/// (trials, first rung) of each bracket.
std::vector<std::pair<int64_t, int64_t>> table(int64_t r, int64_t most, int64_t eta) {
  std::vector<std::pair<int64_t, int64_t>> rows;
  for (const HyperbandBracket& bracket : hyperband_brackets(r, most, eta)) {
    EXPECT_EQ(bracket.rungs.size(), static_cast<size_t>(bracket.s) + 1);
    EXPECT_EQ(bracket.rungs.back(), most);
    rows.emplace_back(bracket.trials, bracket.rungs.front());
  }
  return rows;
}

using Rows = std::vector<std::pair<int64_t, int64_t>>;

// Li et al. 2018, Algorithm 1: n = ceil((s_max + 1) / (s + 1) * eta^s), r = R * eta^-s.
TEST(HyperbandBrackets, AreThePapersForR81AndEta3) {
  EXPECT_EQ(table(1, 81, 3), (Rows{{81, 1}, {34, 3}, {15, 9}, {8, 27}, {5, 81}}));
  int64_t trials = 0;
  for (const auto& [n, r] : table(1, 81, 3)) trials += n;
  EXPECT_EQ(trials, 143);
}

TEST(HyperbandBrackets, NoneIsLostToALogarithm) {
  EXPECT_EQ(table(1, 243, 3).size(), 6U);
  EXPECT_EQ(table(1, 1000, 10), (Rows{{1000, 1}, {134, 10}, {20, 100}, {4, 1000}}));
  EXPECT_EQ(table(1, 125, 5).size(), 4U);
  for (int64_t eta = 2, most; eta < 20; ++eta) {
    most = 1;
    for (size_t count = 1; most < (int64_t{1} << 53) / eta; ++count, most *= eta) {
      EXPECT_EQ(hyperband_brackets(1, most, eta).size(), count) << most << ' ' << eta;
      EXPECT_EQ(hyperband_brackets(1, std::max(most - 1, eta - 1), eta).size(),
                std::max<size_t>(count - 1, 1))
          << most << ' ' << eta;
    }
  }
}

TEST(HyperbandBrackets, WithALeastBudgetAboveOneThereAreFewer) {
  EXPECT_EQ(table(3, 81, 3), (Rows{{27, 3}, {12, 9}, {6, 27}, {4, 81}}));
  EXPECT_EQ(table(2, 81, 3), table(3, 81, 3)) << "27 * 2 <= 81 < 81 * 2";
  EXPECT_EQ(table(5, 9, 2), (Rows{{1, 9}}));
  EXPECT_EQ(table(7, 7, 2), (Rows{{1, 7}}));
}

TEST(HyperbandBrackets, RungsOfABudgetThatIsNoPowerAreWholeAndRise) {
  const auto brackets = hyperband_brackets(1, 100, 3);
  EXPECT_EQ(brackets.front().rungs, (std::vector<int64_t>{1, 3, 11, 33, 100}));
  for (const auto& bracket : hyperband_brackets(3, 1000, 7)) {
    EXPECT_TRUE(std::ranges::is_sorted(bracket.rungs));
    EXPECT_GE(bracket.rungs.front(), 3);
  }
}

TEST(HyperbandBrackets, OfNTrialsTheFloorOfNOverEtaToTheIGoOnAndOneAtLeast) {
  const auto of_34 = [](int64_t i) { return survivors(34, 3, i); };
  EXPECT_EQ((std::vector{of_34(0), of_34(1), of_34(2), of_34(3)}),
            (std::vector<int64_t>{34, 11, 3, 1}));
  EXPECT_EQ(survivors(2, 3, 1), 1);
  EXPECT_EQ(survivors(1, 3, 4), 1);
}

/// Trials by hand: what Hyperband says, and what it then orders.
class Band {
 public:
  explicit Band(HyperbandOptions options, Mode mode = Mode::kMax)
      : scheduler_(make_scheduler(hyperband(options), {.mode = mode, .metric = "loss"})) {}

  void start(int64_t from, int64_t to) {
    for (int64_t number = from; number < to; ++number) scheduler_->on_start(number, {});
  }
  /// The trial reports, is told to pause, and does.
  std::string pause(int64_t number, int64_t t, double score) {
    const Decision decision = scheduler_->on_report(number, t, score);
    EXPECT_EQ(decision.action, Action::kPause) << "trial " << number << " at " << t;
    scheduler_->on_pause(number);
    return decision.reason;
  }
  Decision report(int64_t number, int64_t t, double score = 0) {
    return scheduler_->on_report(number, t, score);
  }
  void end(int64_t number, TrialState state = TrialState::kFailed) {
    scheduler_->on_end(number, state);
  }
  /// Numbers that go on, in order. Those that end are told so.
  std::vector<int64_t> orders() {
    std::vector<int64_t> up;
    while (const auto order = scheduler_->promote()) {
      EXPECT_FALSE(order->reason.empty());
      reasons_[order->number] = order->reason;
      if (order->end) {
        ended_.insert(order->number);
        end(order->number, TrialState::kPruned);
      } else {
        up.push_back(order->number);
        scheduler_->on_resume(order->number, {});
      }
    }
    return up;
  }
  const std::set<int64_t>& ended() const { return ended_; }
  const std::string& reason(int64_t number) { return reasons_[number]; }
  Scheduler& operator*() { return *scheduler_; }
  Scheduler* operator->() { return scheduler_.get(); }

 private:
  std::unique_ptr<Scheduler> scheduler_;
  std::set<int64_t> ended_;
  std::map<int64_t, std::string> reasons_;
};

using Numbers = std::vector<int64_t>;

TEST(Hyperband, ABracketWaitsForAllItsTrialsAndSendsTheBestOn) {
  Band band({.max_t = 9});  // brackets of 9, 5 and 3
  band.start(0, 9);
  for (int64_t number = 0; number < 8; ++number)
    band.pause(number, 1, static_cast<double>(number) / 10);
  EXPECT_EQ(band.orders(), Numbers{}) << "trial 8 is to come";
  EXPECT_THAT(band->status(),
              HasSubstr("hyperband: reduction 3, max_t 9: bracket 2: 8 of 9 at rung 1"));
  EXPECT_EQ(band.pause(8, 1, 0.45), "paused at rung 1 of bracket 2: 0.45");
  EXPECT_EQ(band.orders(), (Numbers{7, 6, 5}));
  EXPECT_EQ(band.ended(), (std::set<int64_t>{0, 1, 2, 3, 4, 8}));
  EXPECT_EQ(band.reason(7), "promoted to rung 3: in the best 3 of 9 at rung 1 of bracket 2");
  EXPECT_EQ(band.reason(8), "stopped at rung 1 of bracket 2: 0.45 < cutoff 0.5 (n=9)");
  EXPECT_EQ(band.report(5, 2), Decision{});
  band.pause(5, 3, 1);
  band.pause(6, 3, 2);
  band.pause(7, 3, 0);
  EXPECT_EQ(band.orders(), Numbers{6});
  EXPECT_EQ(band.reason(6), "promoted to max_t 9: in the best 1 of 3 at rung 3 of bracket 2");
  EXPECT_EQ(band.report(6, 8), Decision{});
  EXPECT_EQ(band.report(6, 9), (Decision{Action::kStop, "reached max_t 9", true}));
}

TEST(Hyperband, WhileABracketWaitsTheNextOnesFill) {
  Band band({.max_t = 9});
  band.start(0, 9 + 5 + 3 + 1);
  EXPECT_THAT(band->status(),
              HasSubstr("bracket 2: 0 of 9 at rung 1; bracket 1: 0 of 5 at rung 3; "
                        "bracket 0: 3 on the way to max_t 9; bracket 2: 1 of 9 started"));
  EXPECT_EQ(band.report(9, 2), Decision{}) << "the first of bracket 1";
  EXPECT_EQ(band.report(9, 3).action, Action::kPause);
  EXPECT_EQ(band.report(14, 8), Decision{}) << "the first of bracket 0";
  EXPECT_EQ(band.report(17, 1).action, Action::kPause) << "bracket 2 again";
}

TEST(Hyperband, TheSmallestBracketMayBeFirst) {
  Band band({.max_t = 9, .order = "smallest"});
  band.start(0, 9);
  EXPECT_EQ(band.report(2, 3), Decision{});
  EXPECT_EQ(band.report(3, 3).action, Action::kPause);
  EXPECT_EQ(band.report(8, 1).action, Action::kPause);
}

TEST(Hyperband, OldBracketsGoFirstAndEndsBeforeAll) {
  Band band({.max_t = 4, .reduction_factor = 2});  // 4, 3, 3
  band.start(0, 7);
  for (const int64_t number : {4, 5, 6}) band.pause(number, 2, static_cast<double>(number));
  for (const int64_t number : {0, 1, 2, 3}) band.pause(number, 1, static_cast<double>(number));
  const auto first = band->promote();
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->end);
  band.end(first->number, TrialState::kPruned);
  EXPECT_EQ(band.orders(), (Numbers{3, 2, 6}));
  EXPECT_EQ(band.ended().size(), 3U) << "and one that was taken by hand";
}

TEST(Hyperband, WhenNoMoreTrialsComeTheOpenBracketHalvesWithWhatItHas) {
  Band band({.max_t = 27});  // bracket 3: 27 trials
  band.start(0, 7);
  for (int64_t number = 0; number < 7; ++number) band.pause(number, 1, static_cast<double>(number));
  EXPECT_EQ(band.orders(), Numbers{});
  band->no_more_trials();
  EXPECT_EQ(band.orders(), (Numbers{6, 5})) << "floor(7 / 3)";
  band.pause(5, 3, 1);
  band.pause(6, 3, 0);
  EXPECT_EQ(band.orders(), Numbers{5}) << "floor(7 / 9) is none, but the best is trained on";
  band->no_more_trials();
  band.start(7, 8);
  EXPECT_THAT(band->status(), HasSubstr("bracket 2: 1 of 12 started"));
}

TEST(Hyperband, ATrialThatFailsCountsAsTheWorst) {
  Band band({.max_t = 9});
  band.start(0, 9);
  for (int64_t number = 0; number < 8; ++number) band.pause(number, 1, static_cast<double>(number));
  band.end(8);
  EXPECT_EQ(band.orders(), (Numbers{7, 6, 5})) << "3 of 9 go on";
  band.end(7);
  band.end(6);
  band.pause(5, 3, 0);
  EXPECT_EQ(band.orders(), Numbers{5}) << "the only one";
}

TEST(Hyperband, AWholeBracketMayFail) {
  Band band({.max_t = 4, .reduction_factor = 2});
  band.start(0, 4);
  for (const int64_t number : {0, 1, 2, 3}) band.end(number);
  EXPECT_EQ(band->status(), "hyperband: reduction 2, max_t 4");
  band.start(4, 5);
  EXPECT_THAT(band->status(), HasSubstr("bracket 1: 1 of 3 started"));
}

TEST(Hyperband, AnOrderDiesWithItsTrial) {
  Band band({.max_t = 4, .reduction_factor = 2});
  band.start(0, 4);
  for (const int64_t number : {0, 1, 2, 3}) band.pause(number, 1, static_cast<double>(number));
  band.end(3, TrialState::kPruned);  // by hand, while they wait
  band.end(0, TrialState::kPruned);
  EXPECT_EQ(band.orders(), Numbers{2});
  EXPECT_EQ(band.ended(), std::set<int64_t>{1});
}

TEST(Hyperband, AScoreThatIsNotFiniteIsStoppedAtItsRung) {
  Band band({.max_t = 4, .reduction_factor = 2}, Mode::kMin);
  band.start(0, 4);
  EXPECT_EQ(band.report(0, 1, kNan),
            (Decision{Action::kStop, "stopped at rung 1 of bracket 2: loss is nan"}));
  band.end(0, TrialState::kPruned);
  EXPECT_EQ(band.pause(1, 1, -0.3), "paused at rung 1 of bracket 2: 0.3");
  band.pause(2, 1, -0.2);
  band.pause(3, 1, -0.4);
  EXPECT_EQ(band.orders(), (Numbers{2, 1}));
  EXPECT_EQ(band.reason(3), "stopped at rung 1 of bracket 2: 0.4 > cutoff 0.3 (n=3)");
}

TEST(Hyperband, OfEqualScoresTheFirstGoesOn) {
  Band band({.max_t = 2, .reduction_factor = 2});
  band.start(0, 2);
  band.pause(1, 1, 0.5);
  band.pause(0, 1, 0.5);
  EXPECT_EQ(band.orders(), Numbers{0});
  EXPECT_EQ(band.reason(1),
            "stopped at rung 1 of bracket 1: 0.5, as trial 0, which came first (n=2)");
}

TEST(Hyperband, ATrialThatPassedTheNextRungWaitsThereAtOnce) {
  Band band({.max_t = 27});
  band.start(0, 27);
  for (int64_t number = 0; number < 27; ++number)
    band.pause(number, 12, static_cast<double>(number));
  EXPECT_EQ(band.orders(), Numbers{26}) << "past the rungs 1, 3 and 9 at once";
  EXPECT_EQ(band.ended().size(), 26U);
}

TEST(Hyperband, WithoutAnEndAtMaxTATrialGoesOnAndNobodyWaitsForIt) {
  Band band({.max_t = 2, .reduction_factor = 2, .stop_last_trials = false});
  band.start(0, 2);
  EXPECT_EQ(band.report(0, 2, 1), Decision{}) << "it left the bracket";
  band.pause(1, 1, 0.5);
  EXPECT_EQ(band.orders(), Numbers{1});
  EXPECT_EQ(band.report(0, 3, 1), Decision{});
  EXPECT_EQ(band.report(1, 5, 1), Decision{});
  band.end(0, TrialState::kComplete);
  band.end(1, TrialState::kComplete);
  EXPECT_EQ(band->status(), "hyperband: reduction 2, max_t 2");
}

/// All brackets with any number of slots: a trial's t, and how many reached each rung.
TEST(Hyperband, TrainsAsManyTrialsToEachRungAsThePaperSays) {
  for (const size_t slots : {1U, 4U, 1000U}) {
    Band band({.max_t = 27});
    std::mt19937 generator(static_cast<unsigned>(slots));
    std::map<int64_t, int64_t> t;
    std::set<int64_t> running;
    std::map<int64_t, std::set<int64_t>> reached;
    int64_t next = 0;
    const int64_t all = 27 + 12 + 6 + 4;
    while (true) {
      while (running.size() < slots) {
        if (const auto order = band->promote()) {
          if (order->end) {
            band.end(order->number, TrialState::kPruned);
          } else {
            running.insert(order->number);
          }
        } else if (next < all) {
          band.start(next, next + 1);
          running.insert(next++);
        } else {
          break;
        }
      }
      if (running.empty()) break;
      const int64_t number =
          *std::next(running.begin(), static_cast<int64_t>(generator() % running.size()));
      reached[++t[number]].insert(number);
      const Decision decision =
          band.report(number, t[number], static_cast<double>(number * 37 % all));
      if (decision.action == Action::kContinue) continue;
      running.erase(number);
      if (decision.action == Action::kPause) {
        band->on_pause(number);
      } else {
        band.end(number, TrialState::kComplete);
      }
    }
    // 27 → 9 → 3 → 1; 12 → 4 → 1; 6 → 2; 4.
    EXPECT_EQ(reached[1].size(), 49U);
    EXPECT_EQ(reached[3].size(), 9U + 12 + 6 + 4);
    EXPECT_EQ(reached[9].size(), 3U + 4 + 6 + 4);
    EXPECT_EQ(reached[27].size(), 1U + 1 + 2 + 4);
    EXPECT_EQ(band->status(), "hyperband: reduction 3, max_t 27") << "all brackets are done";
  }
}

TEST(Hyperband, RefusesOptionsThatMakeNoSense) {
  const auto refused = [](HyperbandOptions options) {
    return refusal_of([&] { (void)hyperband(options); });
  };
  EXPECT_THAT(refused({.grace_period = 0}), HasSubstr("1 <= grace_period <= max_t <= 2^53"));
  EXPECT_THAT(refused({.max_t = 2, .grace_period = 3}), HasSubstr("grace_period=3,max_t=2"));
  EXPECT_THAT(refused({.reduction_factor = 1}), HasSubstr("at least 2"));
  EXPECT_THAT(refused({.order = "random"}), HasSubstr("order is largest or smallest"));
  EXPECT_EQ(hyperband({.max_t = 9, .order = "smallest"}), "hyperband:max_t=9,order=smallest");
}

}  // namespace
}  // namespace muster::tune
