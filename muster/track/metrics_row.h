// One row of what a run measured.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::track {

/// Numbers by name, in the order in which they are written and shown. `muster train` has, besides
/// the task's metrics:
///   lr              of the row's last step
///   samples_per_s   over all ranks
///   elapsed_s       since the start of the run, breaks left out
///   gradient_norm   of the row's last step, before clipping
///   epoch_s         of training in this epoch so far, by this process; no validation, no checkpoint
struct MetricsRow {
  int64_t step = 0;   ///< finished optimizer steps of the whole run
  int64_t epoch = 0;  ///< 1 … epochs
  std::string phase;  ///< "train", "validate" or "test"
  std::vector<std::pair<std::string, double>> values;  ///< NaN and infinity are values too

  /// The value of that name, or null.
  const double* find(std::string_view name) const;
};

}  // namespace muster::track
