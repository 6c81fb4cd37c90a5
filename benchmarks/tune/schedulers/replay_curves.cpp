// Searchers under schedulers, on learning curves that are replayed on a virtual clock: what a study has
// found after how much time.
//
//     zcat learning_curves/curves.csv.gz > curves.csv
//     replay_curves --curves curves.csv --configs learning_curves/configs.csv
//                   [--searcher SPEC …] [--scheduler SPEC …] [--workers N …] [--machine P,P …]
//                   [--networks again|once] [--clock seconds|epochs] [--seeds 40] [--first-seed 0]
//                   [--svg FILE]
//
// What a trial is: see learning_curves.h. With `once` no network is trained twice in a study; with
// `--clock epochs` all epochs take the same time.
// A machine is the chance that an attempt runs five times as slowly, and that of a crash per epoch. A
// study has no end; it is broken off when its workers have had the time of kBudgets.back() full
// trainings (27 epochs of the table's networks, on the average). Prints CSV, a line per study: how many
// trials, epochs and different networks it had, the best accuracy after each of kBudgets, and after how
// many full trainings' time it was within 0.02, 0.01 and 0.005 of the table's best ("inf": not by the
// end). replay_table.py makes a table of it.
//
// The picture has a panel per scheduler, with the median over the seeds of the best accuracy so far for
// each searcher.
//
// No pbt: what a network would do with another one's weights is in no table of curves.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/params.h"
#include "muster/base/text.h"
#include "muster/track/page/curves.h"

#include "benchmarks/tune/schedulers/learning_curves.h"
#include "benchmarks/tune/schedulers/replay_words.h"

namespace muster::benchmarks {
namespace {

constexpr double kBudgets[] = {5, 10, 20, 30, 45, 60, 90};
constexpr double kWithin[] = {0.02, 0.01, 0.005};
constexpr double kAttemptStartS = 0.1;

struct Machine {
  std::string name = "0,0";
  double straggler = 0, failure = 0;
};

struct ReplayFlags {
  std::string curves, configs, svg;
  std::vector<std::string> searchers, schedulers;
  std::vector<size_t> workers;
  std::vector<Machine> machines;
  bool once = false, count_epochs = false;
  uint64_t seeds = 40, first_seed = 0;
};

Machine parse_machine(const std::string& text) {
  const auto chances = split(text, ',');
  if (chances.size() != 2)
    throw usage_error({.refused = "--machine",
                       .rule = "two chances: of a straggler, and of a crash per epoch",
                       .value = text});
  return {text, std::stod(chances[0]), std::stod(chances[1])};
}

ReplayFlags parse_flags(int argc, char** argv) {
  ReplayFlags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (i + 1 == argc) throw usage_error({.refused = word, .rule = "a value follows"});
    const std::string value = argv[++i];
    if (word == "--curves")
      flags.curves = value;
    else if (word == "--configs")
      flags.configs = value;
    else if (word == "--svg")
      flags.svg = value;
    else if (word == "--searcher")
      flags.searchers.push_back(value);
    else if (word == "--scheduler")
      flags.schedulers.push_back(value);
    else if (word == "--workers")
      flags.workers.push_back(std::stoull(value));
    else if (word == "--machine")
      flags.machines.push_back(parse_machine(value));
    else if (word == "--networks" && (value == "again" || value == "once"))
      flags.once = value == "once";
    else if (word == "--clock" && (value == "seconds" || value == "epochs"))
      flags.count_epochs = value == "epochs";
    else if (word == "--seeds")
      flags.seeds = std::stoull(value);
    else if (word == "--first-seed")
      flags.first_seed = std::stoull(value);
    else
      throw usage_error({.refused = word, .rule = "see the top of replay_curves.cpp"});
  }
  if (flags.searchers.empty()) flags.searchers = replayed_searchers();
  if (flags.schedulers.empty()) flags.schedulers = replayed_schedulers();
  if (flags.workers.empty()) flags.workers = {1, 4, 16};
  if (flags.machines.empty()) flags.machines = {{}};
  return flags;
}

struct Study {
  std::string searcher, scheduler;
  size_t workers = 1;
  Machine machine;
  uint64_t seed = 0;
};

/// The best accuracy of a study as it went, in full trainings' time, for the picture.
using Progress = std::vector<std::pair<double, double>>;

Progress run(const LearningCurves& curves, const ReplayFlags& flags, const Study& study) {
  tune::StudySpec spec{.name = "replay", .metric = "accuracy", .mode = tune::Mode::kMax};
  spec.space = LearningCurves::space();
  spec.num_samples = -1;
  spec.max_concurrent = static_cast<int64_t>(study.workers);
  spec.searcher = study.searcher;
  spec.scheduler = study.scheduler;
  spec.seed = study.seed;
  spec.failures.fill({.retries = 3});
  tune::StudyCore core(spec);
  const double unit_s = curves.full_training_s() / static_cast<double>(study.workers);
  LearningCurves::Taken taken;
  const auto result = tune::simulate(core,
                                     curves.training(flags.once, taken),
                                     {.workers = study.workers,
                                      .seed = study.seed,
                                      .start_s = kAttemptStartS,
                                      .straggler = study.machine.straggler,
                                      .failure = study.machine.failure,
                                      .until_s = std::end(kBudgets)[-1] * unit_s});
  if (result.finished)
    throw internal_error({.refused = study.scheduler, .rule = "a study without end goes on"});
  std::string line = concat(quoted(study.searcher),
                            ',',
                            quoted(study.scheduler),
                            ',',
                            study.workers,
                            ',',
                            quoted(study.machine.name),
                            ',',
                            study.seed,
                            ',',
                            core.trials().size(),
                            ',',
                            result.steps,
                            ',',
                            taken.networks.size(),
                            ',',
                            flags.once ? "once" : "again",
                            ',',
                            flags.count_epochs ? "epochs" : "seconds",
                            ',',
                            shortest(curves.best_accuracy()));
  for (const double budget : kBudgets)
    line += concat(',', shortest(result.best_at(budget * unit_s)));
  for (const double within : kWithin) {
    double reached = std::numeric_limits<double>::infinity();
    for (const auto& [at_s, accuracy] : result.best) {
      if (accuracy < curves.best_accuracy() - within - 1e-9) continue;
      reached = at_s / unit_s;
      break;
    }
    line += concat(',', shortest(reached));
  }
  std::puts(line.c_str());
  Progress progress;
  for (const auto& [at_s, accuracy] : result.best) progress.emplace_back(at_s / unit_s, accuracy);
  return progress;
}

double best_by(const Progress& progress, double time) {
  double best = 0;
  for (const auto& [at, accuracy] : progress) {
    if (at <= time) best = accuracy;
  }
  return best;
}

track::Series medians_of(const std::string& name, const std::vector<Progress>& studies) {
  constexpr int kFirst = 3;  // before, most have next to nothing
  track::Series series{.name = name, .points = {}};
  for (int time = kFirst; time <= static_cast<int>(std::end(kBudgets)[-1]); ++time) {
    std::vector<double> all;
    all.reserve(studies.size());
    for (const Progress& progress : studies) all.push_back(best_by(progress, time));
    const auto middle = all.begin() + static_cast<ptrdiff_t>(all.size() / 2);
    std::ranges::nth_element(all, middle);
    series.points.push_back({static_cast<double>(time), *middle});
  }
  return series;
}

void write_picture(const std::string& path, std::vector<track::Panel> panels) {
  std::ofstream file(path);
  file << track::render_curves_svg({.title = "Best accuracy so far, median over the seeds",
                                    .panels = std::move(panels),
                                    .epochs = {}});
  if (!file.flush()) throw environment_error({.refused = path, .rule = "it can be written"});
}

void replay(const ReplayFlags& flags) {
  LearningCurves curves = LearningCurves::read(flags.curves, flags.configs);
  if (flags.count_epochs) curves.count_epochs();
  std::fprintf(stderr,
               "%zu networks, best accuracy %g, a full training takes %.1f s\n",
               curves.size(),
               curves.best_accuracy(),
               curves.full_training_s());
  std::string header =
      "searcher,scheduler,workers,machine,seed,trials,epochs,different,networks,clock,best";
  for (const double budget : kBudgets) header += concat(",after ", shortest(budget));
  for (const double within : kWithin) header += concat(",to ", shortest(within));
  std::puts(header.c_str());
  std::vector<track::Panel> panels;
  for (const Machine& machine : flags.machines) {
    for (const size_t workers : flags.workers) {
      for (const std::string& scheduler : flags.schedulers) {
        track::Panel panel{.title = concat(parse_spec(scheduler).name, ", ", workers, " workers"),
                           .series = {},
                           .is_share = true,
                           .x_name = "full trainings"};
        for (const std::string& searcher : flags.searchers) {
          std::vector<Progress> studies;
          for (uint64_t seed = flags.first_seed; seed < flags.first_seed + flags.seeds; ++seed)
            studies.push_back(run(curves, flags, {searcher, scheduler, workers, machine, seed}));
          panel.series.push_back(medians_of(searcher, studies));
        }
        panels.push_back(std::move(panel));
        std::fflush(stdout);
      }
    }
  }
  if (!flags.svg.empty()) write_picture(flags.svg, std::move(panels));
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
