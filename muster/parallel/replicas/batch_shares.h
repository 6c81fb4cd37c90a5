// How many rows of a batch each replica takes: arithmetic only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace muster::parallel {

/// `rows` dealt out in proportion to `weights`: whole numbers that add up to `rows`, by the largest
/// remainder (Hamilton); ties go to the lower index. A weight of 0 gets nothing. With `each_some`,
/// and at least as many rows as positive weights, each of these gets a row at least. The weights
/// are finite, not negative, and not all 0.
std::vector<int64_t> deal_rows(int64_t rows, const std::vector<double>& weights, bool each_some);

struct SpeedSharesOptions {
  int64_t window = 15;  ///< steps whose times the median is taken of
  /// A fraction of the batch moves by at most this share of itself a step.
  double max_change = 0.1;
};

// Note [Shares by speed]
// What is measured is a replica's own work in a step: from its start to its last gradient, without
// the wait for the others (ReplicaTimer). Its time per row is the median over the last `window`
// steps, so that a hiccup of the machine moves nothing. The fractions that would let all replicas
// end together are proportional to 1 / (time per row); the present ones go towards them on a
// straight line, together, as far as `max_change` allows the one that changes most. Differences
// below kDeadBand are left alone: they are noise, and a batch of another size costs the allocators.
// Times of a fake clock give the same shares on every run; real ones do not, and with the shares
// the order of summation changes: who needs the same bits twice fixes the shares.

/// Fractions of the batch that follow the replicas' speeds. Deterministic in what note() was told.
class SpeedShares {
 public:
  static constexpr double kDeadBand = 0.02;

  /// Starts with equal fractions. Throws a usage error for a window below 1 or a change outside
  /// (0, 1].
  SpeedShares(size_t replicas, SpeedSharesOptions options);

  /// One step: rows and seconds of each replica. 0 rows or 0 seconds say nothing.
  void note(const std::vector<int64_t>& rows, const std::vector<double>& seconds);

  /// They add up to 1.
  const std::vector<double>& fractions() const { return fractions_; }

 private:
  SpeedSharesOptions options_;
  std::vector<std::deque<double>> seconds_per_row_;  // of each replica, the last `window`
  std::vector<double> fractions_;
};

}  // namespace muster::parallel
