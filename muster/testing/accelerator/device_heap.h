// Which bytes of a range of addresses are free.
#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace muster::testing {

/// Best fit, neighbours joined. It never looks at the memory itself.
class DeviceHeap {
 public:
  explicit DeviceHeap(size_t bytes) { add(0, bytes); }

  /// Where `bytes` are free below `end`; they are taken. Nothing, if no hole is that large.
  std::optional<size_t> allocate(size_t bytes, size_t end = std::numeric_limits<size_t>::max());
  void give_back(size_t offset, size_t bytes);

  /// The bytes of the largest hole, as far as it lies below `end`.
  size_t largest(size_t end) const;

  /// offset, bytes
  const std::map<size_t, size_t>& holes() const { return holes_; }

 private:
  void add(size_t offset, size_t bytes);
  void remove(std::map<size_t, size_t>::iterator hole);

  std::map<size_t, size_t> holes_;
  std::set<std::pair<size_t, size_t>> by_size_;  // bytes, offset
};

}  // namespace muster::testing
