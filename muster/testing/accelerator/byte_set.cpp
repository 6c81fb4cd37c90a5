#include "muster/testing/accelerator/byte_set.h"

#include <algorithm>

namespace muster::testing {
namespace {

constexpr size_t kMostRuns = 65'536;

}  // namespace

ByteSet::ByteSet(uintptr_t first,
                 size_t element_bytes,
                 std::span<const int64_t> sizes,
                 std::span<const int64_t> strides)
    : first_(first), end_(first) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return;
    if (sizes[d] == 1 || strides[d] == 0) continue;
    gaps_.push_back(
        {static_cast<size_t>(sizes[d]), static_cast<size_t>(strides[d]) * element_bytes});
  }
  std::sort(gaps_.begin(), gaps_.end(), [](const Gap& a, const Gap& b) {
    return a.distance < b.distance;
  });
  run_ = element_bytes;
  size_t joined = 0;  // what begins where the run before it ends, or earlier, makes the run longer
  while (joined < gaps_.size() && gaps_[joined].distance <= run_) {
    run_ += (gaps_[joined].count - 1) * gaps_[joined].distance;
    ++joined;
  }
  gaps_.erase(gaps_.begin(), gaps_.begin() + static_cast<std::ptrdiff_t>(joined));
  end_ = first_ + run_;
  for (const Gap& gap : gaps_) end_ += (gap.count - 1) * gap.distance;
}

bool ByteSet::covers(const ByteSet& other) const {
  if (gaps_.empty()) return first_ <= other.first_ && other.end_ <= end_;
  return first_ == other.first_ && run_ == other.run_ && gaps_ == other.gaps_;
}

bool ByteSet::overlaps(const ByteSet& other) const {
  if (empty() || other.empty() || first_ >= other.end_ || other.first_ >= end_) return false;
  if (gaps_.empty() && other.gaps_.empty()) return true;
  const auto ours = runs(), theirs = other.runs();
  for (auto a = ours.begin(), b = theirs.begin(); a != ours.end() && b != theirs.end();) {
    if (a->first < b->second && b->first < a->second) return true;
    a->second <= b->second ? ++a : ++b;
  }
  return false;
}

std::vector<std::pair<uintptr_t, uintptr_t>> ByteSet::runs() const {
  size_t count = 1;
  for (const Gap& gap : gaps_) {
    count *= gap.count;
    if (count > kMostRuns) return {{first_, end_}};
  }
  std::vector<std::pair<uintptr_t, uintptr_t>> all{{first_, first_ + run_}};
  for (const Gap& gap : gaps_) {
    const size_t before = all.size();
    for (size_t i = 1; i < gap.count; ++i) {
      for (size_t r = 0; r < before; ++r)
        all.emplace_back(all[r].first + i * gap.distance, all[r].second + i * gap.distance);
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace muster::testing
