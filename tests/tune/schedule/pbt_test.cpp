#include <cmath>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/tune/schedule/pbt/explorer.h"
#include "muster/tune/schedule/pbt/pbt_options.h"
#include "muster/tune/schedule/pbt/population.h"
#include "muster/tune/schedule/scheduler.h"
#include "muster/tune/space/distribution.h"

#include "tests/support/error_of.h"
#include "tests/support/numbers.h"

namespace muster::tune {
namespace {

using test::kInf;
using test::kNan;
using test::refusal_of;
using ::testing::HasSubstr;
using Numbers = std::vector<int64_t>;

TEST(PbtQuantiles, WhatIsNotFiniteIsTheWorstAndNoDonor) {
  const auto ends = quantiles({{0, 3}, {1, kNan}, {2, kInf}, {3, 1}}, 0.5);
  EXPECT_EQ(ends.lower, (Numbers{1, 2}));
  EXPECT_EQ(ends.upper, (Numbers{3, 0}));
  const auto lost = quantiles({{0, kNan}, {1, -kInf}}, 0.5);
  EXPECT_EQ(lost.lower, Numbers{0});
  EXPECT_EQ(lost.upper, Numbers{});
}

double moved(const Domain& domain, double number, bool up) {
  return perturbed(domain.distribution(), number, up, up ? 1.2 : 0.8);
}

TEST(PbtPerturbed, StaysInItsDomainAndOnItsSteps) {
  EXPECT_DOUBLE_EQ(moved(uniform(0, 1), 0.5, true), 0.6);
  EXPECT_EQ(moved(uniform(0, 1), 0.9, true), std::nextafter(1.0, 0.0)) << "1 is excluded";
  EXPECT_EQ(moved(loguniform(0.1, 1), 0.11, false), 0.1);
  EXPECT_EQ(moved(quniform(0, 1, 0.25), 0.75, true), 1) << "0.9 is rounded";
  EXPECT_EQ(moved(randint(0, 10), 9, true), 9);
  EXPECT_EQ(moved(qrandint(4, 64, 4), 40, true), 48);
  EXPECT_EQ(moved(randn(), -2, true), -2.4);
}

TEST(PbtPerturbed, ByOneStepAtLeast) {
  EXPECT_EQ(moved(randint(0, 10), 2, true), 3) << "2.4 is rounded to 2";
  EXPECT_EQ(moved(randint(0, 10), 2, false), 1);
  EXPECT_EQ(moved(randint(-10, 0), -2, true), -3) << "1.2 times -2 is less";
  EXPECT_EQ(moved(quniform(0, 1, 0.25), 0.5, true), 0.75);
  EXPECT_EQ(moved(randint(0, 10), 0, true), 0) << "nothing times 1.2";
}

TEST(PbtPerturbed, AChoiceGoesToANeighbourInItsList) {
  const Domain domain = choice({"a", "b", "c"});
  EXPECT_EQ(moved(domain, 0, true), 1);
  EXPECT_EQ(moved(domain, 0, false), 0);
  EXPECT_EQ(moved(domain, 2, true), 2);
}

Space mixed_space() {
  return Space(std::vector<Parameter>{
      {.name = "lr", .domain = loguniform(1e-4, 1)},
      {.name = "batch_size", .domain = choice({2, 4, 8, 16})},
      {.name = "optimizer", .domain = choice({"adam", "sgd"})},
      {.name = "momentum", .domain = uniform(0.5, 1), .when = "optimizer == 'sgd'"},
      {.name = "epochs", .domain = 10}});
}

TEST(PbtExplorer, ChangesRealNumbersAndWhatIsNamed) {
  const Space space = mixed_space();
  const Point donor{0.01, 2, 1, 0.8};
  const auto with = [&](const std::string& mutate) {
    return Explorer(space, {.resample_probability = 0, .mutate = mutate}, 1).explore(donor, 0, 0);
  };
  const auto real = with("");
  EXPECT_NE(real.point[0], 0.01);
  EXPECT_EQ(real.point[1], 2);
  EXPECT_NE(real.point[3], 0.8);
  EXPECT_THAT(real.text, HasSubstr("lr 0.01 -> 0.0"));
  EXPECT_THAT(real.text, HasSubstr(", momentum 0.8 -> "));
  const auto named = with("batch_size  optimizer");
  EXPECT_EQ(named.point[0], 0.01);
  EXPECT_TRUE(named.point[1] == 1 || named.point[1] == 3);
  EXPECT_THAT(named.text, HasSubstr("batch_size 8 -> "));
}

TEST(PbtExplorer, WhatDoesNotApplyIsLeftOpen) {
  const auto explored = Explorer(mixed_space(), {}, 1).explore({0.01, 2, 0, kNan}, 0, 0);
  EXPECT_TRUE(std::isnan(explored.point[3]));
  EXPECT_THAT(explored.text, ::testing::Not(HasSubstr("momentum")));
}

TEST(PbtExplorer, DrawsAnewAsOftenAsItIsTold) {
  const Explorer explorer(mixed_space(), {.resample_probability = 0.25}, 7);
  int drawn = 0, up = 0, moves = 0;
  std::set<double> values;
  for (int64_t trial = 0; trial < 100; ++trial) {
    for (int64_t copies = 0; copies < 40; ++copies) {
      const auto explored = explorer.explore({0.1, 0, 0, kNan}, trial, copies);
      const bool is_drawn = explored.text.ends_with("(drawn)");
      drawn += is_drawn;
      if (is_drawn) values.insert(explored.point[0]);
      if (!is_drawn) ++moves, up += explored.point[0] > 0.1;
    }
  }
  // Four standard deviations of 4,000 draws.
  EXPECT_NEAR(drawn, 1000, 4 * std::sqrt(4000 * 0.25 * 0.75));
  EXPECT_NEAR(up, moves / 2.0, 4 * std::sqrt(moves * 0.25));
  EXPECT_EQ(values.size(), static_cast<size_t>(drawn)) << "each is another draw";
}

TEST(PbtExplorer, RefusesNamesThatCannotBeChanged) {
  const auto refused = [](const std::string& mutate) {
    return refusal_of([&] { Explorer(mixed_space(), {.mutate = mutate}, 1); });
  };
  EXPECT_THAT(refused("lr momentun"), HasSubstr("momentum"));
  EXPECT_THAT(refused("epochs"), HasSubstr("what it names is drawn, and not constant"));
  EXPECT_THAT(refusal_of([] {
                Explorer(Space({{"l", choice({1, 2})}}), {}, 1);
              }),
              HasSubstr("mutate=l, if a checkpoint fits whatever it is"));
}

/// A population by hand, with checkpoints at each report.
class Population {
 public:
  Population(int64_t trials, const PbtOptions& options) : space_({{"lr", loguniform(1e-4, 1)}}) {
    scheduler_ = make_scheduler(pbt(options), {.seed = 5, .metric = "acc", .space = space_});
    for (int64_t number = 0; number < trials; ++number)
      scheduler_->on_start(number, space_.draw({}, 1, number));
  }
  Decision report(int64_t number, int64_t t, double score) {
    scheduler_->on_checkpoint(number, t);
    const Decision decision = scheduler_->on_report(number, t, score);
    if (decision.action == Action::kPause) scheduler_->on_pause(number);
    return decision;
  }
  /// What the next order says; its trial goes on.
  std::optional<Scheduler::Promotion> next() {
    const auto order = scheduler_->promote();
    if (order)
      scheduler_->on_resume(order->number, order->point.empty() ? Point{0.1} : order->point);
    return order;
  }
  Scheduler* operator->() { return scheduler_.get(); }

 private:
  Space space_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST(Pbt, TheWorstCopyOneOfTheBest) {
  Population population(4, {.perturbation_interval = 2});
  population->no_more_trials();
  EXPECT_EQ(population.report(3, 1, 0), Decision{}) << "not its time yet";
  for (const int64_t number : {0, 1, 2})
    EXPECT_EQ(population.report(number, 2, static_cast<double>(number + 1)), Decision{})
        << "nobody below it has come so far, but itself";
  EXPECT_EQ(population.report(3, 2, 0),
            (Decision{Action::kPause, "paused at 2 to copy trial 2: 0 beside 3"}));
  const auto order = population.next();
  ASSERT_TRUE(order);
  EXPECT_EQ(order->number, 3);
  EXPECT_EQ(order->donor, 2);
  EXPECT_EQ(order->point.size(), 1U);
  EXPECT_THAT(order->reason, HasSubstr("goes on as trial 2: lr "));
  EXPECT_THAT(population->status(), HasSubstr("pbt: 4 trials, interval 2, 1 copied; best 3 at 2"));
  EXPECT_EQ(population.report(3, 3, 0), Decision{}) << "judged with its donor, at 2";
}

TEST(Pbt, NobodyIsCopiedWithoutACheckpoint) {
  Population population(2, {.perturbation_interval = 1, .quantile_fraction = 0.5});
  population->no_more_trials();
  EXPECT_EQ(population->on_report(0, 1, 1), Decision{});
  EXPECT_EQ(population->on_report(1, 1, 0), Decision{});
}

TEST(Pbt, BurnInComesFirst) {
  Population population(
      2, {.perturbation_interval = 1, .burn_in_period = 5, .quantile_fraction = 0.5});
  population->no_more_trials();
  for (int64_t t = 1; t < 5; ++t) {
    EXPECT_EQ(population.report(0, t, 1), Decision{});
    EXPECT_EQ(population.report(1, t, 0), Decision{});
  }
  EXPECT_EQ(population.report(0, 5, 1), Decision{});
  EXPECT_EQ(population.report(1, 5, 0).action, Action::kPause);
}

TEST(Pbt, WhatIsNotANumberCopiesToo) {
  Population population(2, {.perturbation_interval = 1, .quantile_fraction = 0.5});
  population->no_more_trials();
  EXPECT_EQ(population.report(0, 1, 0.5), Decision{});
  EXPECT_EQ(population.report(1, 1, kNan).reason, "paused at 1 to copy trial 0: nan beside 0.5");
}

TEST(Pbt, WithFewerSlotsThanTrialsTheLeastTrainedTakeTheirTurn) {
  Population population(2, {.perturbation_interval = 2, .quantile_fraction = 0});
  EXPECT_EQ(population.report(0, 2, 1), (Decision{Action::kPause, "paused at 2: others wait"}));
  EXPECT_EQ(population.next(), std::nullopt) << "new trials are the least trained";
  EXPECT_EQ(population.report(1, 3, 1).action, Action::kPause);
  population->on_start(2, {0.1});
  population->no_more_trials();
  EXPECT_EQ(population.next()->number, 0);
  EXPECT_EQ(population.report(0, 4, 1).action, Action::kPause) << "trial 1 waits, at 3";
  EXPECT_EQ(population.next()->number, 1);
  EXPECT_EQ(population.next()->reason, "goes on: its turn at 4");
  EXPECT_EQ(population.report(2, 2, 1), Decision{}) << "all run";
}

TEST(Pbt, ADonorThatIsOverIsReplaced) {
  Population population(4, {.perturbation_interval = 1, .quantile_fraction = 0.5});
  population->no_more_trials();
  population.report(0, 1, 3);
  population.report(1, 1, 4);
  EXPECT_EQ(population.report(2, 1, 1).reason, "paused at 1 to copy trial 1: 1 beside 4");
  population->on_end(1, TrialState::kComplete);
  const auto order = population.next();
  ASSERT_TRUE(order);
  EXPECT_EQ(order->number, 2);
  EXPECT_EQ(order->donor, 0);
}

TEST(Pbt, SynchronousTrialsWaitForEachOther) {
  Population population(4, {.perturbation_interval = 2, .synch = true});
  population->no_more_trials();
  EXPECT_EQ(population.report(0, 1, 1), Decision{});
  for (const int64_t number : {0, 1, 2}) {
    EXPECT_EQ(population.report(number, 2, static_cast<double>(number)),
              (Decision{Action::kPause, "paused at 2: all are waited for"}));
    EXPECT_EQ(population.next(), std::nullopt);
  }
  EXPECT_EQ(population.report(3, 2, 9).action, Action::kPause);
  std::map<int64_t, int64_t> donors;
  while (const auto order = population.next()) donors[order->number] = order->donor;
  EXPECT_EQ(donors, (std::map<int64_t, int64_t>{{0, 3}, {1, -1}, {2, -1}, {3, -1}}));
}

TEST(Pbt, SynchronousTrialsDoNotWaitForOneThatIsOver) {
  Population population(3, {.perturbation_interval = 2, .synch = true});
  population->no_more_trials();
  population.report(0, 2, 1);
  population.report(1, 2, 2);
  EXPECT_EQ(population.next(), std::nullopt);
  population->on_end(2, TrialState::kFailed);
  EXPECT_EQ(population.next()->donor, 1);
}

TEST(Pbt, RefusesOptionsThatMakeNoSense) {
  const auto refused = [](const PbtOptions& options) {
    return refusal_of([&] { (void)pbt(options); });
  };
  EXPECT_THAT(refused({.perturbation_interval = 0}), HasSubstr("at least 1"));
  EXPECT_THAT(refused({.quantile_fraction = 0.6}), HasSubstr("between 0 and 0.5"));
  EXPECT_THAT(refused({.perturb_up = 0.9}), HasSubstr("perturb_up is above 1"));
  EXPECT_THAT(refused({.perturb_down = 1}), HasSubstr("perturb_down is between 0 and 1"));
  EXPECT_EQ(pbt({.perturbation_interval = 3, .mutate = "lr wd"}),
            "pbt:perturbation_interval=3,mutate=lr wd");
}

}  // namespace
}  // namespace muster::tune
