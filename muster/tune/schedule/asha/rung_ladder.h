// The rungs of successive halving, and which bracket a trial is in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace muster::tune {

/// min_t, min_t * eta, … <= max_t, by multiplication: floor(log(max_t / min_t) / log(eta)) in floating point
/// loses the top rung of (1, 1000, 10) and (1, 243, 3). A whole eta gives whole rungs. At most the
/// `limit` lowest.
std::vector<double> rung_ladder(int64_t min_t, int64_t max_t, double eta, size_t limit);

/// Bracket s of Ray Tune 2.60, whose count of rungs does come from logarithms.
std::vector<double> ray_rung_ladder(int64_t min_t, int64_t max_t, double eta, int64_t s);

/// The bracket of trial `number`: s with a chance in proportion to exp(rungs[s]), as Ray Tune draws
/// it; here by counter (Philox), so that the order of trials does not matter.
size_t draw_bracket(std::span<const size_t> rungs, uint64_t seed, int64_t number);

}  // namespace muster::tune
