#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tune/schedule/asha/asha_options.h"
#include "muster/tune/schedule/asha/promotion_rung.h"
#include "muster/tune/schedule/scheduler.h"

#include "tests/support/numbers.h"

namespace muster::tune {
namespace {

using ::testing::HasSubstr;

using test::kNan;

std::unique_ptr<Scheduler> promoting(AshaOptions options, Mode mode = Mode::kMax) {
  options.variant = "promotion";
  return make_scheduler(asha(options), {.seed = 1, .mode = mode, .metric = "loss"});
}

/// The trial reaches t, is told to pause, and does.
std::string pause_at(Scheduler& scheduler, int64_t number, int64_t t, double score) {
  const Decision decision = scheduler.on_report(number, t, score);
  EXPECT_EQ(decision.action, Action::kPause) << "trial " << number << " at " << t;
  scheduler.on_pause(number);
  return decision.reason;
}

int64_t promoted(Scheduler& scheduler) {
  const auto promotion = scheduler.promote();
  return promotion ? promotion->number : -1;
}

TEST(AshaPromotion, ATrialPausesAtEachRungAndIsCompleteAtMaxT) {
  const auto scheduler = promoting({.max_t = 9, .grace_period = 2, .reduction_factor = 2});
  EXPECT_TRUE(scheduler->pauses());
  EXPECT_EQ(scheduler->on_report(0, 1, 0.5), Decision{});
  EXPECT_EQ(pause_at(*scheduler, 0, 2, 0.5), "paused at rung 2: 0.5 (n=1)");
  EXPECT_EQ(promoted(*scheduler), -1) << "floor(1 / 2) is 0";
  pause_at(*scheduler, 1, 2, 0.4);
  const auto promotion = scheduler->promote();
  ASSERT_TRUE(promotion);
  EXPECT_EQ(promotion->number, 0);
  EXPECT_EQ(promotion->reason, "promoted to rung 4: in the best 1 of 2 at rung 2");
  EXPECT_EQ(scheduler->on_report(0, 3, 0.6), Decision{});
  pause_at(*scheduler, 0, 4, 0.7);
  EXPECT_EQ(promoted(*scheduler), -1) << "the best of rung 2 went on already";
}

TEST(AshaPromotion, FromTheTopRungTrialsGoOnToMaxT) {
  const auto scheduler = promoting({.max_t = 3, .reduction_factor = 2});
  for (const int64_t number : {0, 1, 2, 3})
    pause_at(*scheduler, number, 1, static_cast<double>(number));
  for (const int64_t number : {3, 2}) {
    EXPECT_EQ(promoted(*scheduler), number);
    pause_at(*scheduler, number, 2, static_cast<double>(number));
  }
  const auto promotion = scheduler->promote();
  ASSERT_TRUE(promotion);
  EXPECT_EQ(promotion->reason, "promoted to max_t 3: in the best 1 of 2 at rung 2");
  EXPECT_EQ(scheduler->on_report(3, 3, 1), (Decision{Action::kStop, "reached max_t 3", true}));
}

TEST(AshaPromotion, HighRungsComeFirst) {
  const auto scheduler = promoting({.max_t = 8, .reduction_factor = 2});
  for (const int64_t number : {0, 1, 2, 3, 4, 5})
    pause_at(*scheduler, number, 1, static_cast<double>(number));
  EXPECT_EQ(promoted(*scheduler), 5);
  EXPECT_EQ(promoted(*scheduler), 4);
  pause_at(*scheduler, 4, 2, 0.1);
  pause_at(*scheduler, 5, 2, 0.2);
  EXPECT_EQ(promoted(*scheduler), 5) << "of rung 2, before trial 3 of rung 1";
  EXPECT_EQ(promoted(*scheduler), 3);
  EXPECT_EQ(promoted(*scheduler), -1);
}

TEST(AshaPromotion, OnlyATrialThatGaveItsSlotBackIsPromoted) {
  const auto scheduler = promoting({.reduction_factor = 2});
  EXPECT_EQ(scheduler->on_report(0, 1, 1).action, Action::kPause);
  EXPECT_EQ(scheduler->on_report(1, 1, 0).action, Action::kPause);
  EXPECT_EQ(promoted(*scheduler), -1);
  scheduler->on_pause(1);
  EXPECT_EQ(promoted(*scheduler), -1);
  scheduler->on_pause(0);
  EXPECT_EQ(promoted(*scheduler), 0);
}

TEST(AshaPromotion, ATrialThatEndsWhileItIsPausedCountsAndIsNotPromoted) {
  const auto scheduler = promoting({.reduction_factor = 2});
  pause_at(*scheduler, 0, 1, 1);
  pause_at(*scheduler, 1, 1, 0);
  scheduler->on_end(0, TrialState::kPruned);
  EXPECT_EQ(promoted(*scheduler), -1);
  pause_at(*scheduler, 2, 1, 0.5);
  pause_at(*scheduler, 3, 1, 0.1);
  EXPECT_EQ(promoted(*scheduler), 2) << "floor(4 / 2) are the best: 0, which is gone, and 2";
  EXPECT_EQ(promoted(*scheduler), -1);
}

TEST(AshaPromotion, AScoreThatIsNotFiniteIsStoppedAndNeverPromoted) {
  const auto scheduler = promoting({.reduction_factor = 2}, Mode::kMin);
  for (const int64_t number : {0, 1, 2, 3}) {
    EXPECT_EQ(scheduler->on_report(number, 1, kNan),
              (Decision{Action::kStop, "stopped at rung 1: loss is nan"}));
    scheduler->on_end(number, TrialState::kPruned);
  }
  EXPECT_EQ(promoted(*scheduler), -1);
  EXPECT_EQ(pause_at(*scheduler, 4, 1, -0.3), "paused at rung 1: 0.3 (n=5)");
  EXPECT_EQ(promoted(*scheduler), 4) << "the best 2 of 5";
}

TEST(AshaPromotion, AReportThatPassesSeveralRungsPausesAtTheHighest) {
  const auto scheduler = promoting({.max_t = 100, .reduction_factor = 2});
  EXPECT_EQ(pause_at(*scheduler, 0, 5, 1), "paused at rung 4: 1 (n=1)");
  EXPECT_THAT(scheduler->status(), HasSubstr("rung 2: n=0, best 0 go on; rung 4: n=1"));
}

TEST(AshaPromotion, BracketsShareTheirSlotsByHeightOfTheRung) {
  const auto scheduler = promoting({.max_t = 8, .reduction_factor = 2, .brackets = 2});
  std::set<int64_t> low, high;  // by bracket: the first pauses at 1, the second at 2
  for (int64_t number = 0; number < 40; ++number) {
    if (scheduler->on_report(number, 1, 0.5).action == Action::kPause) {
      low.insert(number);
    } else {
      EXPECT_EQ(scheduler->on_report(number, 2, 0.5).action, Action::kPause);
      high.insert(number);
    }
    scheduler->on_pause(number);
  }
  ASSERT_GE(high.size(), 2U);
  for (size_t i = 0; i < high.size() / 2; ++i) EXPECT_TRUE(high.contains(promoted(*scheduler)));
  for (size_t i = 0; i < low.size() / 2; ++i) EXPECT_TRUE(low.contains(promoted(*scheduler)));
  EXPECT_EQ(promoted(*scheduler), -1);
}

/// What PromotionRung is to do, by sorting.
class SortedRung {
 public:
  explicit SortedRung(double eta) : eta_(eta) {}
  void add(int64_t number, double score) { members_.push_back({-score, number}); }
  void set(int64_t number, bool waits) {
    waiting_.erase(number);
    if (waits) waiting_.insert(number);
  }
  int64_t promote_best() {
    auto sorted = members_;
    std::ranges::sort(sorted);
    const auto top = static_cast<size_t>(static_cast<double>(sorted.size()) / eta_);
    for (size_t i = 0; i < top; ++i) {
      if (waiting_.erase(sorted[i].second) > 0) return sorted[i].second;
    }
    return -1;
  }

 private:
  double eta_;
  std::vector<std::pair<double, int64_t>> members_;
  std::set<int64_t> waiting_;
};

TEST(PromotionRung, IsASortedListOnlyFaster) {
  for (const double eta : {1.5, 2., 3., 4.}) {
    std::mt19937 generator(static_cast<unsigned>(eta * 10));
    const auto below = [&](size_t n) { return static_cast<int64_t>(generator() % n); };
    PromotionRung rung(eta);
    SortedRung expected(eta);
    for (int64_t step = 0, count = 0; step < 2000; ++step) {
      const int64_t what = below(4);
      if (what == 0) {
        const auto score = static_cast<double>(below(50));
        EXPECT_EQ(rung.add(count, score), static_cast<uint32_t>(count));
        expected.add(count++, score);
      } else if (what < 3 && count > 0) {
        const int64_t number = below(static_cast<size_t>(count));
        const bool waits = below(3) > 0;
        expected.set(number, waits);
        if (waits) {
          rung.wait(static_cast<uint32_t>(number));
        } else {
          rung.leave(static_cast<uint32_t>(number));
        }
      } else {
        ASSERT_EQ(rung.promote_best().value_or(-1), expected.promote_best())
            << "step " << step << " eta " << eta;
      }
    }
  }
}

}  // namespace
}  // namespace muster::tune
