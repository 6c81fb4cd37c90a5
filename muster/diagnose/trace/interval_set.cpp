#include "muster/diagnose/trace/interval_set.h"

#include <algorithm>
#include <limits>

namespace muster::diagnose {

IntervalSet::IntervalSet(std::vector<Interval> any) {
  std::erase_if(any, [](const Interval& one) { return one.end <= one.begin; });
  std::sort(any.begin(), any.end(), [](const Interval& a, const Interval& b) {
    return a.begin < b.begin;
  });
  for (const Interval& next : any) {
    if (!intervals_.empty() && next.begin <= intervals_.back().end)
      intervals_.back().end = std::max(intervals_.back().end, next.end);
    else
      intervals_.push_back(next);
  }
}

int64_t IntervalSet::length() const {
  int64_t sum = 0;
  for (const Interval& one : intervals_) sum += one.end - one.begin;
  return sum;
}

IntervalSet operator&(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet result;
  for (size_t i = 0, j = 0; i < a.intervals_.size() && j < b.intervals_.size();) {
    const Interval &left = a.intervals_[i], &right = b.intervals_[j];
    const Interval common{std::max(left.begin, right.begin), std::min(left.end, right.end)};
    if (common.begin < common.end) result.intervals_.push_back(common);
    if (left.end < right.end)
      ++i;
    else
      ++j;
  }
  return result;
}

IntervalSet operator|(const IntervalSet& a, const IntervalSet& b) {
  std::vector<Interval> all = a.intervals_;
  all.insert(all.end(), b.intervals_.begin(), b.intervals_.end());
  return IntervalSet(std::move(all));
}

IntervalSet operator-(const IntervalSet& a, const IntervalSet& b) {
  std::vector<Interval> rest;  // of the whole line
  int64_t from = std::numeric_limits<int64_t>::min();
  for (const Interval& one : b.intervals_) {
    rest.push_back({from, one.begin});
    from = one.end;
  }
  rest.push_back({from, std::numeric_limits<int64_t>::max()});
  return a & IntervalSet(std::move(rest));
}

}  // namespace muster::diagnose
