// Functions with a budget, to compare searchers under schedulers: a trial of few epochs says roughly what
// one of all epochs would say.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "muster/tune/space/space.h"

namespace muster::benchmarks {

constexpr int64_t kBudgetEpochs = 27;

struct BudgetFunction {
  std::string name;
  tune::Space space;
  double least = 0;  ///< with the whole budget
  /// Without noise, to be minimised; `share`: of the budget, in (0, 1].
  std::function<double(const tune::Point&, double share)> value;
  /// What a trial reports after `epoch` epochs; `seed` is the study's.
  std::function<double(const tune::Point&, int64_t epoch, uint64_t seed, int64_t trial)> seen;
};

/// Branin, Borehole and two Hartmann functions: Kandasamy et al. 2017, "Multi-fidelity Bayesian
/// optimisation with continuous approximations", all of a function's fidelities being the share.
/// Counting ones: Falkner et al. 2018, "BOHB", four categories and four probabilities.
std::span<const BudgetFunction> budget_functions();

}  // namespace muster::benchmarks
