// Schedulers beside each other on learning curves by a formula (tests/tune/simulated_curves.h), on a
// virtual clock, with stragglers and crashes: how much training a number of trials takes, how long, and
// what it finds. Seconds for all. Curves of real networks: replay_curves.
//
//     compare_schedulers [--trials N] [--workers W] [--seeds S] [--straggler P] [--failure P]
//                        [SCHEDULER…]
//
// Writes a table as Markdown.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "muster/base/error.h"

#include "tests/tune/simulated_curves.h"
#include "tests/tune/simulated_study.h"

namespace muster::tune {
namespace {

struct CompareFlags {
  int64_t trials = 81;
  size_t workers = 8;
  uint64_t seeds = 20;
  double straggler = 0.1;
  double failure = 0.001;
  std::vector<std::string> schedulers;
};

struct Row {
  double steps = 0, wall_s = 0, busy = 0, best = 0, best_early = 0;
};

double median_of_numbers(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  const size_t middle = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[middle] : (numbers[middle - 1] + numbers[middle]) / 2;
}

/// Medians over the seeds; `early_s`: when the best so far is looked at besides at the end.
Row measure(const CompareFlags& flags,
            const std::string& scheduler,
            const Space& space,
            const std::function<SimulatedTraining(uint64_t)>& training,
            const std::vector<double>& early_s,
            std::vector<double>* walls) {
  std::vector<double> steps, wall, busy, best, early;
  for (uint64_t seed = 0; seed < flags.seeds; ++seed) {
    StudySpec spec{.name = "compare", .metric = "loss", .mode = Mode::kMin};
    spec.space = space;
    spec.num_samples = flags.trials;
    spec.scheduler = scheduler;
    spec.seed = seed;
    spec.failures.fill({.retries = 3});
    StudyCore core(spec);
    const auto result = simulate(core,
                                 training(seed),
                                 {.workers = flags.workers,
                                  .seed = seed,
                                  .straggler = flags.straggler,
                                  .failure = flags.failure});
    if (!result.finished)
      throw internal_error({.refused = scheduler, .rule = "its study comes to an end"});
    steps.push_back(static_cast<double>(result.steps));
    wall.push_back(result.wall_s);
    busy.push_back(result.busy_s / result.wall_s / static_cast<double>(flags.workers));
    best.push_back(result.best.back().second);
    if (!early_s.empty()) early.push_back(result.best_at(early_s[seed]));
  }
  if (walls != nullptr) *walls = wall;
  return {median_of_numbers(steps),
          median_of_numbers(wall),
          median_of_numbers(busy),
          median_of_numbers(best),
          early.empty() ? std::numeric_limits<double>::quiet_NaN() : median_of_numbers(early)};
}

CompareFlags parse_flags(int argc, char** argv) {
  CompareFlags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      flags.schedulers.push_back(word);
      continue;
    }
    if (i + 1 == argc) throw usage_error({.refused = word, .rule = "a value follows"});
    const std::string value = argv[++i];
    if (word == "--trials")
      flags.trials = std::stoll(value);
    else if (word == "--workers")
      flags.workers = std::stoull(value);
    else if (word == "--seeds")
      flags.seeds = std::stoull(value);
    else if (word == "--straggler")
      flags.straggler = std::stod(value);
    else if (word == "--failure")
      flags.failure = std::stod(value);
    else
      throw usage_error({.refused = word, .rule = "see the top of compare_schedulers.cpp"});
  }
  if (flags.schedulers.empty()) {
    flags.schedulers = {"fifo",
                        "asha:max_t=27,reduction_factor=3",
                        "asha:max_t=27,reduction_factor=3,variant=promotion",
                        "hyperband:max_t=27",
                        "median",
                        "median:rule=optuna",
                        "pbt:perturbation_interval=3"};
  }
  return flags;
}

int compare(const CompareFlags& flags) {
  const Space space = PowerLawCurves::space();
  const auto training = [](uint64_t seed) { return PowerLawCurves::training(27, seed); };
  // A quarter of the time that it takes to train all.
  std::vector<double> quarter;
  measure(flags, "fifo", space, training, {}, &quarter);
  for (double& wall_s : quarter) wall_s /= 4;
  std::printf(
      "%lld trials, %zu workers, %llu seeds, stragglers %g, failures %g per step; medians\n\n",
      static_cast<long long>(flags.trials),
      flags.workers,
      static_cast<unsigned long long>(flags.seeds),
      flags.straggler,
      flags.failure);
  std::printf("| scheduler | steps | hours | busy | best | best in a quarter of fifo's time |\n");
  std::printf("|---|---|---|---|---|---|\n");
  for (const std::string& scheduler : flags.schedulers) {
    const Row row = measure(flags, scheduler, space, training, quarter, nullptr);
    std::printf("| %s | %.0f | %.2f | %.0f%% | %.4f | %.4f |\n",
                scheduler.c_str(),
                row.steps,
                row.wall_s / 3600,
                100 * row.busy,
                row.best,
                row.best_early);
  }
  return 0;
}

}  // namespace
}  // namespace muster::tune

int main(int argc, char** argv) {
  try {
    return muster::tune::compare(muster::tune::parse_flags(argc, argv));
  } catch (const muster::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
