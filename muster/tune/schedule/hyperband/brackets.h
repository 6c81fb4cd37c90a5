// The brackets of HyperBand: how many trials are trained how long.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::tune {

/// Bracket s of HyperBand: `trials` start, and at each of `rungs` but the last one of eta goes on.
struct HyperbandBracket {
  int64_t s = 0;
  int64_t trials = 0;          ///< n = ceil((s_max + 1) / (s + 1) * eta^s)
  std::vector<int64_t> rungs;  ///< r_i = floor(R * eta^(i - s)); the last one is R
};

/// The brackets s_max, …, 0 for trials that are trained from `min_t` (r) to `max_t` (R), with
/// s_max = floor(log_eta(R / r)), in whole numbers all through: a logarithm in floating point
/// loses a bracket of (1, 243, 3). Wants 1 <= min_t <= max_t <= 2^53 and eta >= 2. Source: Li et
/// al. 2018 ("Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization"), Algorithm
/// 1, with R / r for R.
std::vector<HyperbandBracket> hyperband_brackets(int64_t min_t, int64_t max_t, int64_t eta);

/// How many of `trials` go on from rung `i` - 1 to rung `i`: n_i = floor(n * eta^-i), but one at
/// least, so that a bracket with few trials trains its best one to the end.
int64_t survivors(int64_t trials, int64_t eta, int64_t i);

}  // namespace muster::tune
