// The bytes that a tensor reaches, gaps left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace muster::testing {

/// A run of bytes, repeated in each of `gaps` so many times at such a distance.
class ByteSet {
 public:
  ByteSet() = default;
  /// `sizes` and `strides` in elements, as a tensor has them; `first` is the address of its first
  /// element.
  ByteSet(uintptr_t first,
          size_t element_bytes,
          std::span<const int64_t> sizes,
          std::span<const int64_t> strides);

  bool empty() const { return first_ == end_; }
  uintptr_t first() const { return first_; }
  uintptr_t end() const { return end_; }

  /// All of `other` is in it; a set with gaps may say no where it does.
  bool covers(const ByteSet& other) const;
  /// A byte is in both. Exact; sets of more than 65,536 runs count as if they had no gaps.
  bool overlaps(const ByteSet& other) const;

 private:
  struct Gap {
    size_t count = 0;
    size_t distance = 0;  // bytes
    bool operator==(const Gap&) const = default;
  };
  std::vector<std::pair<uintptr_t, uintptr_t>> runs() const;

  uintptr_t first_ = 0;
  uintptr_t end_ = 0;
  size_t run_ = 0;  // bytes
  std::vector<Gap> gaps_;
};

}  // namespace muster::testing
