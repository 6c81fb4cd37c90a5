// Searchers under schedulers on functions with a budget (budget_functions.h), on a virtual clock: what a
// study has found after how much time. An epoch takes a second, whatever the trial.
//
//     replay_functions [--function NAME …] [--searcher SPEC …] [--scheduler SPEC …] [--workers 4]
//                      [--seeds 40] [--first-seed 0]
//
// A study has no end; it is broken off when its workers have had the time of kTimes.back() trials of the
// whole budget. Its answer at a time is the trial that had the best report of the whole budget by then;
// the regret is what that one is worth without noise, less the least value. Prints CSV, a line per study
// ("nan": no trial had the whole budget yet). functions_table.py makes a table of it.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"

#include "benchmarks/tune/schedulers/budget_functions.h"
#include "benchmarks/tune/schedulers/replay_words.h"
#include "tests/tune/simulated_study.h"

namespace muster::benchmarks {
namespace {

constexpr double kTimes[] = {5, 10, 20, 30, 60, 90};

struct ReplayFlags {
  std::vector<std::string> functions, searchers, schedulers;
  size_t workers = 4;
  uint64_t seeds = 40, first_seed = 0;
};

ReplayFlags parse_flags(int argc, char** argv) {
  ReplayFlags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (i + 1 == argc) throw usage_error({.refused = word, .rule = "a value follows"});
    const std::string value = argv[++i];
    if (word == "--function")
      flags.functions.push_back(value);
    else if (word == "--searcher")
      flags.searchers.push_back(value);
    else if (word == "--scheduler")
      flags.schedulers.push_back(value);
    else if (word == "--workers")
      flags.workers = std::stoull(value);
    else if (word == "--seeds")
      flags.seeds = std::stoull(value);
    else if (word == "--first-seed")
      flags.first_seed = std::stoull(value);
    else
      throw usage_error({.refused = word, .rule = "see the top of replay_functions.cpp"});
  }
  if (flags.searchers.empty()) flags.searchers = replayed_searchers();
  if (flags.schedulers.empty()) flags.schedulers = replayed_schedulers();
  return flags;
}

tune::SimulatedTraining training_of(const BudgetFunction& function, uint64_t seed) {
  return {.begin = [](const tune::Trial&) { return tune::SimulatedTraining::State(); },
          .step = [](const tune::Trial&, int64_t, tune::SimulatedTraining::State&) {},
          .metric =
              [&function, seed](
                  const tune::Trial& trial, int64_t t, const tune::SimulatedTraining::State&) {
                return function.seen(trial.point, t, seed, trial.number);
              },
          .steps = kBudgetEpochs};
}

void run(const BudgetFunction& function,
         const ReplayFlags& flags,
         const std::string& searcher,
         const std::string& scheduler,
         uint64_t seed) {
  tune::StudySpec spec{.name = "replay", .metric = "loss", .mode = tune::Mode::kMin};
  spec.space = function.space;
  spec.num_samples = -1;
  spec.max_concurrent = static_cast<int64_t>(flags.workers);
  spec.searcher = searcher;
  spec.scheduler = scheduler;
  spec.seed = seed;
  tune::StudyCore core(spec);
  const double unit_s = static_cast<double>(kBudgetEpochs) / static_cast<double>(flags.workers);
  const auto result = tune::simulate(core,
                                     training_of(function, seed),
                                     {.workers = flags.workers,
                                      .seed = seed,
                                      .start_s = 0,
                                      .until_s = std::end(kTimes)[-1] * unit_s});
  std::vector<double> regrets(std::size(kTimes), std::numeric_limits<double>::quiet_NaN());
  double best_seen = std::numeric_limits<double>::infinity();
  for (const tune::Event& event : result.log) {
    const auto* reported = std::get_if<tune::Reported>(&event.what);
    if (reported == nullptr || reported->t < kBudgetEpochs) continue;
    const tune::Trial& trial = core.trials()[static_cast<size_t>(event.trial)];
    const double seen = function.seen(trial.point, reported->t, seed, trial.number);
    if (seen >= best_seen) continue;
    best_seen = seen;
    const double regret = function.value(trial.point, 1) - function.least;
    for (size_t i = 0; i < regrets.size(); ++i) {
      if (event.time_s <= result.log.front().time_s + kTimes[i] * unit_s) regrets[i] = regret;
    }
  }
  std::string line = concat(function.name,
                            ',',
                            quoted(searcher),
                            ',',
                            quoted(scheduler),
                            ',',
                            flags.workers,
                            ',',
                            seed,
                            ',',
                            core.trials().size());
  for (const double regret : regrets) line += concat(',', shortest(regret));
  std::puts(line.c_str());
}

bool is_wanted(const ReplayFlags& flags, const std::string& name) {
  return flags.functions.empty() ||
         std::ranges::find(flags.functions, name) != flags.functions.end();
}

void replay(const ReplayFlags& flags) {
  std::string header = "function,searcher,scheduler,workers,seed,trials";
  for (const double time : kTimes) header += concat(",after ", shortest(time));
  std::puts(header.c_str());
  for (const BudgetFunction& function : budget_functions()) {
    if (!is_wanted(flags, function.name)) continue;
    for (const std::string& scheduler : flags.schedulers) {
      for (const std::string& searcher : flags.searchers) {
        for (uint64_t seed = flags.first_seed; seed < flags.first_seed + flags.seeds; ++seed)
          run(function, flags, searcher, scheduler, seed);
      }
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace muster::benchmarks

int main(int argc, char** argv) {
  try {
    muster::benchmarks::replay(muster::benchmarks::parse_flags(argc, argv));
    return 0;
  } catch (const muster::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
