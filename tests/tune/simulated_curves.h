// Models of training for simulated studies.
#pragma once

#include <algorithm>
#include <cmath>

#include "tests/tune/simulated_study.h"

namespace muster::tune {

/// Learning curves as power laws, loss(t) = floor + range * t^-speed, over {lr, width}: a small lr is
/// slow and comes further, so that curves cross; a wide one takes longer; noise of 0.01. The best
/// floor is 0.1, at lr 0.01 and width 256.
struct PowerLawCurves {
  static Space space() {
    return Space({{"lr", loguniform(1e-4, 1)}, {"width", sample_from("2 ** randint(3, 9)")}});
  }
  static double floor_of(const Trial& trial) {
    const double lr = std::log10(trial.values[0].as_double()) + 2;  // 0 is the best
    const double width = static_cast<double>(trial.values[1].as_int());
    return 0.1 + 0.12 * lr * lr + 0.05 * std::log2(256 / width) / 5;
  }
  static SimulatedTraining training(int64_t steps, uint64_t seed) {
    return {.begin = [](const Trial&) { return SimulatedTraining::State{}; },
            .step = [](const Trial&, int64_t, SimulatedTraining::State&) {},
            .metric =
                [seed](const Trial& trial, int64_t t, const SimulatedTraining::State&) {
                  const double speed =
                      0.7 + 0.3 * (std::log10(trial.values[0].as_double()) + 2) / 2;
                  const double noise = simulated_chance(seed, trial.number, t, 7) - 0.5;
                  return floor_of(trial) + 0.9 * std::pow(static_cast<double>(t), -speed) +
                         0.02 * noise;
                },
            .step_s =
                [](const Trial& trial) {
                  return 0.5 + static_cast<double>(trial.values[1].as_int()) / 256;
                },
            .steps = steps};
  }
};

/// Training whose best learning rate falls as it goes: a step takes away 15% of the loss where lr is a
/// tenth of it, and less the further lr is from there (in the logarithm). A fixed lr is good for a
/// while; population based training can follow.
struct FallingRate {
  static Space space() { return Space({{"lr", loguniform(1e-6, 1)}}); }
  static SimulatedTraining training(int64_t steps) {
    return {.begin = [](const Trial&) { return SimulatedTraining::State{1}; },
            .step =
                [](const Trial& trial, int64_t, SimulatedTraining::State& state) {
                  const double off = std::log(trial.values[0].as_double() / (0.1 * state[0]));
                  state[0] *= 1 - 0.15 * std::exp(-off * off / 2);
                },
            .metric = [](const Trial&,
                         int64_t,
                         const SimulatedTraining::State& state) { return state[0]; },
            .steps = steps};
  }
};

}  // namespace muster::tune
