// What to do about memory that ran out, in words of the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/train/plan/fit_plan.h"

namespace muster::train {

/// Memory that ran out in a run, as far as advice depends on it.
struct MemoryFailure {
  enum class In {
    kStart,     ///< before the first step
    kStep,      ///< a forward, or a backward
    kSmallest,  ///< the same, with no more samples at a time than there must be
    kUpdate,    ///< the optimizer's step
  };
  In in = In::kStart;
  bool has_units = true;  ///< the module has some, which can be run again
  std::optional<int64_t>
      row;                    ///< of how many units a row is that the module is; nothing: not known
  bool sees_batches = false;  ///< some layer looks at all samples of a batch, and trains
  /// What could not be had would have fitted beside smaller batches.
  bool is_room_in_batches = false;
};

/// What makes a run smaller where it was too large, as far as this one does not do it already and its
/// strategy takes it: for an error's hint. Pure.
std::string memory_advice(const FitPlan& plan, const MemoryFailure& failure);

}  // namespace muster::train
