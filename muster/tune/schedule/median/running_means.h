// Means of learning curves up to a time, and their median over the trials that came so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "muster/tune/schedule/running_quantile.h"

namespace muster::tune {

/// What Ray Tune's median stopping rule compares with (ray 2.60, MedianStoppingRule): for a time t,
/// the mean of each curve over its reports of [grace, t], of those curves that have come to t or
/// beyond. A curve with a report there that is not finite, or with none, has no mean. Where curves
/// report at the same times, a question and a report cost O(log n) each; at times of its own,
/// a question looks at all curves, as Ray does.
class RunningMeans {
 public:
  explicit RunningMeans(int64_t grace) : grace_(grace) {}

  /// A new curve; its index: 0, 1, ….
  size_t add_curve();

  /// A report of a curve, whose times rise.
  void add(size_t curve, int64_t t, double score);

  struct Middle {
    double median;  ///< NaN: of none
    size_t n;       ///< means
  };
  /// Over all curves that have reported at t or later. A curve asks before it adds its own.
  Middle at(int64_t t);

 private:
  struct Curve {
    // From grace on, and up to the first report that is not finite.
    std::vector<int64_t> t;
    std::vector<long double>
        sum;  // of the scores so far: long, so that equal scores have equal means
    int64_t last_t = INT64_MIN;
    int64_t spoilt_t = INT64_MAX;  // of that report
  };
  std::optional<double> mean(const Curve& curve, int64_t t) const;
  RunningQuantile means_at(int64_t t) const;

  int64_t grace_;
  std::vector<Curve> curves_;
  std::set<int64_t> asked_once_;
  std::map<int64_t, RunningQuantile> kept_;  // by times that were asked for again
};

}  // namespace muster::tune
