// Which of several results is better, when each is more than one number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace muster::tune {

/// A loss per objective, smaller is better; infinities are as good as any number, NaN is none.
using Losses = std::vector<double>;

/// At least as good everywhere, and better somewhere.
bool dominates(std::span<const double> a, std::span<const double> b);

/// The same by Deb's rules, with what constraints are violated by: 0 or less is feasible.
bool dominates_feasibly(std::span<const double> a,
                        double violation_a,
                        std::span<const double> b,
                        double violation_b);

/// The front that each is on: 0 is dominated by nobody, 1 by those of front 0 alone, … Equal ones are
/// on the same. Sorting ends when so many different ones have their front; the rest are all on the
/// next. O(n log n) per front of two objectives, O(n · front) of more. Source: the order of the
/// NSGA-II paper, section III.A; numbers as optuna 5.0.0, study/_multi_objective.py.
std::vector<int64_t> front_ranks(std::span<const Losses> losses,
                                 size_t enough = std::numeric_limits<size_t>::max());

/// The same with constraints: feasible ones first, then the others by their violation.
std::vector<int64_t> front_ranks(std::span<const Losses> losses,
                                 std::span<const double> violations);

/// How lonely each is among the others of its front: the sum over the objectives of the distance
/// between its neighbours, by that between the outermost finite ones; infinite at both ends. The
/// order in which equal ones come decides who of them is at the end. `order`, unless null, gets the
/// places in the order in which sorting by each objective in turn leaves them. Source: the NSGA-II
/// paper, section III.B; equal ones and infinities as optuna 5.0.0, samplers/nsgaii.
std::vector<double> crowding_distances(std::span<const Losses> values,
                                       std::vector<size_t>* order = nullptr);

/// Places of the `count` that NSGA-II lets live: front by front, of the last one those that are
/// loneliest. `values` are as reported, `losses` smaller for better. In Optuna's order.
std::vector<size_t> elite(std::span<const Losses> values,
                          std::span<const Losses> losses,
                          std::span<const double> violations,
                          size_t count);

}  // namespace muster::tune
