#include "muster/train/progress/early_stopping.h"

#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/train/progress/messages.h"

namespace muster {
namespace {

using train::EarlyStopping;

/// The epoch after which it stops, 1-based; 0: never.
int64_t stops_after(const train::EarlyStoppingOptions& options,
                    const std::vector<double>& metrics) {
  EarlyStopping stopping(options);
  for (size_t i = 0; i < metrics.size(); ++i) {
    stopping.after_epoch(metrics[i]);
    if (stopping.should_stop()) return static_cast<int64_t>(i + 1);
  }
  return 0;
}

TEST(EarlyStopping, StopsAfterPatienceEpochsWithoutABetterOne) {
  EXPECT_EQ(stops_after({.patience = 2}, {5, 4, 4, 3, 3, 3.5, 1}), 6);
  EXPECT_EQ(stops_after({.patience = 3}, {5, 4, 4, 3, 3, 3.5, 1}), 0);
  EXPECT_EQ(stops_after({.patience = 1}, {5, 5}), 2);
  EXPECT_EQ(stops_after({.patience = 0}, {5, 4, 4}), 3);
}

TEST(EarlyStopping, WantsMoreOfAnAccuracy) {
  EXPECT_EQ(stops_after({.patience = 2, .wants_less = false}, {0.1, 0.5, 0.4, 0.5}), 4);
  EXPECT_EQ(stops_after({.patience = 2, .wants_less = false}, {0.1, 0.2, 0.3, 0.4}), 0);
}

TEST(EarlyStopping, TakesOnlyMoreThanMinDeltaForBetter) {
  EXPECT_EQ(stops_after({.patience = 2, .min_delta = 0.5}, {8, 7.75, 7.5, 1}), 3);
  EXPECT_EQ(stops_after({.patience = 2, .min_delta = 0.25}, {8, 7.75, 7.5, 1}), 0);
}

TEST(EarlyStopping, NeverTakesNanForBetter) {
  EXPECT_EQ(stops_after({.patience = 2}, {std::nan(""), std::nan("")}), 2);
  EXPECT_EQ(stops_after({.patience = 2}, {3, std::nan(""), 2, std::nan(""), std::nan("")}), 5);
}

TEST(EarlyStopping, SaysThatNoEpochHadANumber) {
  train::FitPlan plan;
  plan.options.monitor = "validate_error";
  EarlyStopping stopping({.patience = 2});
  stopping.after_epoch(std::nan(""));
  stopping.after_epoch(std::nan(""));
  EXPECT_EQ(train::early_stop_line(plan, stopping, -1),
            "stopped early: 2 epochs without a finite validate_error");
  EXPECT_EQ(
      train::early_stop_line(plan, stopping, -1, /*is_at_once=*/true),
      "stopped early: 2 epochs without a finite validate_error; with --patience 3 or more, or "
      "0, which never stops, the run goes on from here");
}

TEST(EarlyStopping, NamesTheBestEpoch) {
  EarlyStopping stopping({.patience = 3});
  EXPECT_EQ(stopping.best_epoch(), -1);
  EXPECT_FALSE(stopping.should_stop());
  EXPECT_TRUE(stopping.after_epoch(2));
  EXPECT_TRUE(stopping.after_epoch(1));
  EXPECT_FALSE(stopping.after_epoch(1));
  EXPECT_EQ(stopping.best_epoch(), 1);
  EXPECT_EQ(stopping.best(), 1);
  EXPECT_EQ(stopping.epochs_waited(), 1);
}

TEST(EarlyStopping, GoesOnFromItsState) {
  const std::vector<double> metrics{5, 4, 4.5, 3, 3, 3, 3};
  for (size_t broken_at = 0; broken_at < metrics.size(); ++broken_at) {
    EarlyStopping straight({.patience = 3});
    auto broken = std::make_unique<EarlyStopping>(train::EarlyStoppingOptions{.patience = 3});
    for (size_t i = 0; i < metrics.size(); ++i) {
      if (i == broken_at) {
        const Json state = parse_json(broken->state().dump(), "state");
        broken = std::make_unique<EarlyStopping>(train::EarlyStoppingOptions{.patience = 3});
        broken->load_state(state);
      }
      EXPECT_EQ(straight.after_epoch(metrics[i]), broken->after_epoch(metrics[i]));
      EXPECT_EQ(straight.should_stop(), broken->should_stop()) << broken_at << ' ' << i;
    }
    EXPECT_TRUE(straight.should_stop());
    EXPECT_EQ(straight.state(), broken->state());
  }
}

TEST(EarlyStopping, RefusesWhatMakesNoSense) {
  EXPECT_THROW(EarlyStopping({.patience = -1}), Error);
  EXPECT_THROW(EarlyStopping({.min_delta = std::nan("")}), Error);
  EXPECT_THROW(EarlyStopping({}).load_state(Json::object()), Error);
}

}  // namespace
}  // namespace muster
