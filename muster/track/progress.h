// How far a training run is: one JSON line per event, from rank 0 to whoever draws the bar.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::track {

/// One moment of a run. Numbers that are not known yet are empty and left out of the line.
struct ProgressEvent {
  std::string phase = "train";  ///< "train", "validate" or "test"
  int64_t epoch = 0;            ///< 1 … epochs
  int64_t epochs = 0;
  int64_t step = 0;   ///< finished steps of this epoch and phase: 0 … steps
  int64_t steps = 0;  ///< steps of this epoch and phase; 0 means not known
  /// The loss first, then the task's metrics, in the order shown.
  std::vector<std::pair<std::string, double>> metrics;
  std::optional<double> samples_per_s;  ///< over all ranks
  std::optional<double> eta_s;          ///< seconds to the end of the whole run

  /// The value of that metric, or null.
  const double* find(std::string_view name) const;

  bool operator==(const ProgressEvent&) const = default;
};

/// One JSON object and a line end, as it is written to the descriptor named by MUSTER_PROGRESS_FD.
/// Loss and accuracy are members of their own, other metrics are in the object "metrics". A number
/// that JSON cannot hold (NaN, infinity) is left out. Pure; any thread.
std::string to_json_line(const ProgressEvent& event);

/// Reads a line back, with or without its line end. Nothing if it is not such a line: the writer
/// may be any program, or killed in the middle of a line. Keys that are not ours are passed over.
/// Never throws; pure; any thread.
std::optional<ProgressEvent> parse_progress_line(std::string_view line);

}  // namespace muster::track
