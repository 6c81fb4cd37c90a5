// A study whose trials are models of training, on a clock of its own: what weeks on many machines would
// show of a scheduler, in milliseconds and alike each time. It drives the real StudyCore; only the
// executor is played.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "muster/tune/core/study_core.h"

namespace muster::tune {

/// What stands for a program that trains.
struct SimulatedTraining {
  using State = std::vector<double>;  ///< what a checkpoint holds
  /// Of a trial that starts from nothing.
  std::function<State(const Trial&)> begin;
  /// One step, to step `t`, with the values that the trial has now. Changes the state.
  std::function<void(const Trial&, int64_t t, State&)> step;
  /// The study's metric after step `t`.
  std::function<double(const Trial&, int64_t t, const State&)> metric;
  /// Seconds of a step.
  std::function<double(const Trial&)> step_s = [](const Trial&) { return 1.0; };
  int64_t steps = 27;  ///< after which the program ends by itself
};

struct SimulationOptions {
  size_t workers = 4;
  uint64_t seed = 0;       ///< of stragglers and failures
  double start_s = 0.1;    ///< of each attempt, before its first step
  double straggler = 0;    ///< the chance that an attempt is on a slow machine
  double slow_factor = 5;  ///< which takes so many times as long
  double failure = 0;      ///< the chance per step that the attempt crashes instead of reporting
  int64_t most_steps = 10'000'000;  ///< a study that goes on beyond is stuck: it is broken off
  /// When it is broken off in any case.
  double until_s = std::numeric_limits<double>::infinity();
};

struct SimulationResult {
  bool finished = false;     ///< the core said so
  double wall_s = 0;         ///< from the first start to the last end
  int64_t steps = 0;         ///< of all trials, repeated ones too
  int64_t repeated = 0;      ///< after crashes
  double first_idle_s = -1;  ///< when a worker first found nothing to do; -1: never
  double busy_s = 0;         ///< of all workers; the rest of workers * wall_s they waited
  std::vector<Event> log;
  /// The best metric so far, each time that it gets better: seconds and metric.
  std::vector<std::pair<double, double>> best;

  /// What was best after so many seconds; NaN: nothing yet.
  double best_at(double seconds) const;
};

/// Runs the study to its end, and leaves `core` there. What has a checkpoint is what is reported: each
/// step.
SimulationResult simulate(StudyCore& core,
                          const SimulatedTraining& training,
                          const SimulationOptions& options = {});

/// A number of [0, 1) that hangs on its arguments alone.
double simulated_chance(uint64_t seed, int64_t trial, int64_t t, uint32_t what);

}  // namespace muster::tune
