#include "muster/testing/accelerator/device_heap.h"

#include <algorithm>
#include <iterator>

namespace muster::testing {

std::optional<size_t> DeviceHeap::allocate(size_t bytes, size_t end) {
  auto found = by_size_.lower_bound({bytes, 0});
  while (found != by_size_.end() && (found->second > end || end - found->second < bytes)) ++found;
  if (found == by_size_.end()) return std::nullopt;
  const auto [size, offset] = *found;
  remove(holes_.find(offset));
  if (size > bytes) add(offset + bytes, size - bytes);
  return offset;
}

void DeviceHeap::give_back(size_t offset, size_t bytes) {
  const auto after = holes_.lower_bound(offset);
  if (after != holes_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      remove(before);
    }
  }
  if (after != holes_.end() && offset + bytes == after->first) {
    bytes += after->second;
    remove(after);
  }
  add(offset, bytes);
}

size_t DeviceHeap::largest(size_t end) const {
  size_t most = 0;
  for (const auto& [offset, bytes] : holes_)
    if (offset < end) most = std::max(most, std::min(bytes, end - offset));
  return most;
}

void DeviceHeap::add(size_t offset, size_t bytes) {
  holes_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

void DeviceHeap::remove(std::map<size_t, size_t>::iterator hole) {
  by_size_.erase({hole->second, hole->first});
  holes_.erase(hole);
}

}  // namespace muster::testing
