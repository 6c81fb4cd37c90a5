// Sets of times: unions, intersections and differences of intervals.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::diagnose {

/// [begin, end), nanoseconds.
struct Interval {
  int64_t begin = 0, end = 0;
  bool operator==(const Interval&) const = default;
};

/// Disjoint, rising, none empty.
class IntervalSet {
 public:
  IntervalSet() = default;
  /// The union of any intervals; empty and reversed ones count as nothing.
  explicit IntervalSet(std::vector<Interval> any);

  const std::vector<Interval>& intervals() const { return intervals_; }
  int64_t length() const;

  friend IntervalSet operator&(const IntervalSet& a, const IntervalSet& b);
  friend IntervalSet operator|(const IntervalSet& a, const IntervalSet& b);
  friend IntervalSet operator-(const IntervalSet& a, const IntervalSet& b);

 private:
  std::vector<Interval> intervals_;
};

}  // namespace muster::diagnose
