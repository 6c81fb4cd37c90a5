// How many trials came to each rung, and which went on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/tune/plot/plot_study.h"

namespace muster::tune {

/// What became of the trials that came to a rung: they sum to `came`.
struct RungCount {
  int64_t t = 0;  ///< the step at which the scheduler decides
  int64_t came = 0;
  int64_t went_on = 0;   ///< reported beyond it
  int64_t complete = 0;  ///< ended there by themselves, or at max_t
  int64_t stopped = 0;   ///< by the scheduler, or by hand
  int64_t open = 0;      ///< paused or under way there
  int64_t failed = 0;
};

/// The steps at which this scheduler decides, rising: those that its text says (grace_period,
/// reduction_factor, max_t, with the scheduler's defaults) up to the largest that a trial has
/// reported; else those at which trials were stopped or paused; else, where these are more than 12,
/// powers of two. Empty if no trial has reported a step.
std::vector<int64_t> rungs_of(const PlotStudy& study);

/// By rung, those of rungs_of. Trials without a report came to none.
std::vector<RungCount> rung_counts(const PlotStudy& study);

}  // namespace muster::tune
