// What tests of tune::run train.
#pragma once

#include <cmath>
#include <cstdint>

#include "muster/tune/run/run.h"

namespace muster::tune {

inline Space lr_space() {
  return {{"lr", loguniform(1e-4, 1e-1)}, {"batch_size", choice({2, 4, 8, 16})}};
}

/// A loss that is best at lr = 0.01 and falls with the step.
inline void train(TrialHandle& trial) {
  const double distance = std::abs(std::log10(trial.config["lr"].as_double()) + 2);
  for (int64_t step = 1; step <= 8; ++step) {
    if (trial.report({{"loss", distance + 1.0 / static_cast<double>(step)}}) != Action::kContinue)
      return;
  }
}

}  // namespace muster::tune
