// The histogram that TensorBoard draws: counts over exponential bins around zero.
#pragma once

#include <span>
#include <vector>

namespace muster::track {

/// Counts of values between edges, cut to the bins that hold something.
struct Histogram {
  double min = 0;
  double max = 0;
  double num = 0;  ///< number of values, with those outside all bins
  double sum = 0;
  double sum_squares = 0;
  std::vector<double> bucket_limit;  ///< right edge of each bucket
  std::vector<double> bucket;  ///< count in [previous limit, limit); the last one has its limit too
};

/// The histogram that torch.utils.tensorboard's add_histogram writes with its default bins: edges
/// at 0 and ±1e-12 · 1.1^k below 1e20, one empty bucket kept to the left of the first one in use.
/// A NaN, an infinity or a value beyond ±1e20 counts in no bucket, but in num, min, max and the
/// sums. Sums are in double. Throws a usage error if nothing falls into a bucket: no values, or
/// none of them finite. Pure; any thread. O(values).
/// Source: torch/utils/tensorboard/summary.py make_histogram, after TensorFlow's histogram.cc.
Histogram tensorboard_histogram(std::span<const double> values);
Histogram tensorboard_histogram(std::span<const float> values);

}  // namespace muster::track
