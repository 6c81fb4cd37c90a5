// The last values of a number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::memory {

/// Oldest first.
class Series {
 public:
  void add(int64_t value, size_t most) {
    values_.push_back(value);
    if (values_.size() > most) values_.erase(values_.begin());
  }
  const std::vector<int64_t>& values() const { return values_; }
  bool all_zero() const {
    return std::ranges::all_of(values_, [](int64_t value) { return value == 0; });
  }

 private:
  std::vector<int64_t> values_;
};

}  // namespace muster::memory
