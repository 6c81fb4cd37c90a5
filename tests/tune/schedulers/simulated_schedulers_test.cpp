// Schedulers in whole studies on a virtual clock: the real core, four to sixteen workers, stragglers,
// crashes. What a scheduler costs and finds, and that none gets stuck.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/tune/schedule/hyperband/hyperband_options.h"
#include "muster/tune/schedule/pbt/pbt_options.h"
#include "muster/tune/schedule/scheduler.h"

#include "tests/tune/simulated_curves.h"
#include "tests/tune/simulated_study.h"

namespace muster::tune {
namespace {

constexpr int64_t kSteps = 27;

StudySpec curves_spec(const std::string& scheduler, int64_t trials, uint64_t seed) {
  StudySpec spec{.name = "simulated", .metric = "loss", .mode = Mode::kMin};
  spec.space = PowerLawCurves::space();
  spec.num_samples = trials;
  spec.scheduler = scheduler;
  spec.seed = seed;
  spec.failures.fill({.retries = 3, .backoff_s = 1});
  return spec;
}

/// Every scheduler of the table with its defaults, and other rules of theirs.
std::vector<std::string> simulated_specs() {
  std::vector<std::string> all = schedulers().names();
  for (const char* more : {"asha:max_t=27,reduction_factor=3",
                           "asha:max_t=27,reduction_factor=3,variant=promotion",
                           "hyperband:max_t=27",
                           "hyperband:max_t=27,order=smallest",
                           "median:hard_stop=false",
                           "median:rule=optuna",
                           "pbt:perturbation_interval=3,quantile_fraction=0.5",
                           "pbt:perturbation_interval=3,synch=true"})
    all.emplace_back(more);
  return all;
}

class SimulatedScheduler : public ::testing::TestWithParam<std::string> {};

TEST_P(SimulatedScheduler, WithStragglersAndCrashesEveryTrialComesToAnEnd) {
  for (const size_t workers : {1U, 4U, 50U}) {
    StudyCore core(curves_spec(GetParam(), 40, 1));
    const auto result = simulate(core,
                                 PowerLawCurves::training(kSteps, 1),
                                 {.workers = workers, .straggler = 0.2, .failure = 0.02});
    ASSERT_TRUE(result.finished) << workers << " workers: " << core.scheduler_status();
    EXPECT_EQ(core.trials().size(), 40U);
    for (const Trial& trial : core.trials()) EXPECT_TRUE(is_over(trial.state)) << trial.number;
    EXPECT_LE(result.busy_s, static_cast<double>(workers) * result.wall_s + 1e-6);
  }
}

TEST_P(SimulatedScheduler, TheLogReplaysToTheSameStudy) {
  const StudySpec spec = curves_spec(GetParam(), 30, 2);
  StudyCore core(spec);
  const auto result = simulate(
      core, PowerLawCurves::training(kSteps, 2), {.workers = 4, .straggler = 0.2, .failure = 0.02});
  StudyCore again(spec);
  for (const Event& event : result.log) again.replay(event);
  EXPECT_EQ(again.scheduler_status(), core.scheduler_status());
  ASSERT_EQ(again.trials().size(), core.trials().size());
  for (size_t i = 0; i < core.trials().size(); ++i) {
    EXPECT_EQ(again.trials()[i].state, core.trials()[i].state) << i;
    EXPECT_EQ(again.trials()[i].reason, core.trials()[i].reason) << i;
    EXPECT_EQ(again.trials()[i].values, core.trials()[i].values) << i;
  }
}

std::string simulated_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name;
  for (const char c : info.param) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Table,
                         SimulatedScheduler,
                         ::testing::ValuesIn(simulated_specs()),
                         simulated_name);

SimulationResult run_curves(const std::string& scheduler,
                            int64_t trials,
                            uint64_t seed,
                            const SimulationOptions& options) {
  StudyCore core(curves_spec(scheduler, trials, seed));
  auto result = simulate(core, PowerLawCurves::training(kSteps, seed), options);
  EXPECT_TRUE(result.finished) << scheduler;
  return result;
}

constexpr uint64_t kSeeds = 10;

std::vector<SimulationResult> run_seeds(const std::string& scheduler) {
  std::vector<SimulationResult> results;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const SimulationOptions options{.workers = 8, .seed = seed, .straggler = 0.1};
    results.push_back(run_curves(scheduler, 81, seed, options));
  }
  return results;
}

/// Steps beside those of a study that stops nobody, and by how much its best is worse: means.
struct Beside {
  double steps = 0, regret = 0;
};
Beside beside(const std::vector<SimulationResult>& all,
              const std::vector<SimulationResult>& early) {
  Beside mean;
  for (size_t i = 0; i < all.size(); ++i) {
    mean.steps += static_cast<double>(early[i].steps) / static_cast<double>(all[i].steps) / kSeeds;
    mean.regret += (early[i].best.back().second - all[i].best.back().second) / kSeeds;
  }
  return mean;
}

TEST(SimulatedSchedulers, EarlyStoppingSavesMostStepsAndLosesLittle) {
  // The best of 81 trials is about 0.2, and a random one about 0.5.
  const std::map<std::string, Beside> most{
      {"asha:max_t=27,reduction_factor=3", {0.35, 0.02}},
      {"asha:max_t=27,reduction_factor=3,variant=promotion", {0.25, 0.03}},
      {"hyperband:max_t=27", {0.45, 0.03}},
      {"median:grace_period=3", {0.6, 0.01}},
      {"median:rule=optuna,n_warmup_steps=2", {0.7, 0.01}}};
  const auto all = run_seeds("fifo");
  for (const auto& [scheduler, bound] : most) {
    const Beside ours = beside(all, run_seeds(scheduler));
    RecordProperty(scheduler, concat(ours.steps, " steps, regret ", ours.regret));
    EXPECT_LT(ours.steps, bound.steps) << scheduler;
    EXPECT_LT(ours.regret, bound.regret) << scheduler;
  }
}

TEST(SimulatedSchedulers, HyperbandTrainsWhatItsTableSaysHoweverManyWorkers) {
  for (const size_t workers : {1U, 5U, 200U}) {
    const auto result = run_curves(hyperband({.max_t = kSteps}), 49, 3, {.workers = workers});
    // Brackets 27, 12, 6 and 4; each step of a rung above the one below, by who comes so far.
    EXPECT_EQ(result.steps, 49 * 1 + 31 * 2 + 17 * 6 + 8 * 18) << workers;
  }
}

TEST(SimulatedSchedulers, HyperbandLeavesNoWorkerIdleWhileThereIsWork) {
  const auto result =
      run_curves(hyperband({.max_t = kSteps}), 4 * 49, 5, {.workers = 8, .straggler = 0.1});
  double last_new_s = 0;
  for (const Event& event : result.log) {
    if (std::holds_alternative<TrialAdded>(event.what)) last_new_s = event.time_s;
  }
  EXPECT_GT(last_new_s, 20) << "seconds, of a study with many brackets";
  EXPECT_GE(result.first_idle_s, last_new_s) << "nobody waits for a bracket that waits";
}

double final_loss(const std::string& scheduler, uint64_t seed) {
  StudySpec spec{.name = "simulated", .metric = "loss", .mode = Mode::kMin};
  spec.space = FallingRate::space();
  spec.num_samples = 12;
  spec.scheduler = scheduler;
  spec.seed = seed;
  StudyCore core(spec);
  const auto result = simulate(core, FallingRate::training(120), {.workers = 12, .seed = seed});
  EXPECT_TRUE(result.finished);
  return result.best.back().second;
}

TEST(SimulatedSchedulers, APopulationFollowsALearningRateThatHasToFall) {
  int wins = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const double fixed = final_loss("fifo", seed);
    wins += final_loss(pbt({.perturbation_interval = 4}), seed) < fixed / 3;
  }
  EXPECT_GE(wins, 9) << "of 10 seeds, a loss at least three times lower";
}

TEST(SimulatedSchedulers, APopulationWithFewerWorkersIsTrainedEvenly) {
  StudySpec spec = curves_spec(pbt({.perturbation_interval = 3}), 12, 4);
  StudyCore core(spec);
  const auto result = simulate(core, PowerLawCurves::training(kSteps, 4), {.workers = 3});
  ASSERT_TRUE(result.finished);
  std::map<int64_t, int64_t> t;
  int64_t most_ahead = 0;
  for (const Event& event : result.log) {
    const auto* reported = std::get_if<Reported>(&event.what);
    if (reported == nullptr) continue;
    t[event.trial] = reported->t;
    if (t.size() < 12) continue;
    const auto [least, most] =
        std::ranges::minmax_element(t, {}, [](const auto& entry) { return entry.second; });
    if (most->second < kSteps) most_ahead = std::max(most_ahead, most->second - least->second);
  }
  EXPECT_LE(most_ahead, 3 * 3) << "three intervals";
}

}  // namespace
}  // namespace muster::tune
