#include "muster/testing/accelerator/device_memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include <c10/util/Exception.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::testing {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;

constexpr size_t kBlockStep = 512;
constexpr auto kAllPools = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

size_t now_of(const StatArray& stat) { return static_cast<size_t>(stat[kAllPools].current); }

void change(StatArray& stat, int64_t by) {
  if (by >= 0)
    stat[kAllPools].increase(static_cast<size_t>(by));
  else
    stat[kAllPools].decrease(static_cast<size_t>(-by));
}

/// "98 KiB"; in bytes where that is what it is told apart from says, too.
std::string told_apart(size_t bytes, size_t from) {
  const std::string text = human_bytes(bytes);
  return bytes != from && text == human_bytes(from) ? concat(bytes, " bytes") : text;
}

}  // namespace

void DeviceMemory::begin(size_t capacity, bool poison) {
  capacity_ = capacity;
  poison_ = poison;
  fail_in_ = 0;
  left_.clear();
  stats_ = {};
  for (auto& [offset, block] : blocks_) {
    block.charged = false;
    block.recorded.clear();
    block.uses.clear();
  }
}

size_t DeviceMemory::take(size_t bytes, size_t stream) {
  const size_t rounded = (bytes + kBlockStep - 1) / kBlockStep * kBlockStep;
  if (fails_now()) refuse(bytes, true);
  make_room(rounded);
  const size_t live = now_of(stats_.allocated_bytes);
  if (live + rounded > capacity_) refuse(bytes, false);
  const std::optional<size_t> offset = heap_.take(rounded);
  if (!offset) refuse(bytes, false);  // only holes: tensors of older accelerators lie between them
  const size_t reserved = now_of(stats_.reserved_bytes);
  if (live + rounded > reserved) {
    change(stats_.reserved_bytes, static_cast<int64_t>(live + rounded - reserved));
    ++stats_.num_device_alloc;
  }
  MemoryBlock block{.bytes = rounded, .requested = bytes, .stream = stream};
  charge(block, 1);
  blocks_.emplace(*offset, std::move(block));
  if (poison_) std::memset(kernel_address(device_, *offset), 0xFF, rounded);
  return *offset;
}

bool DeviceMemory::fails_now() {
  if (fail_in_ == 0 || --fail_in_ > 0) return false;
  if (fail_all_after_) fail_in_ = 1;
  return true;
}

/// What is cached goes before memory runs out.
void DeviceMemory::make_room(size_t bytes) {
  const size_t live = now_of(stats_.allocated_bytes), reserved = now_of(stats_.reserved_bytes);
  if (live + bytes <= capacity_ && reserved <= capacity_) return;
  if (reserved == live) return;
  ++stats_.num_alloc_retries;
  empty_cache();
}

void DeviceMemory::refuse(size_t bytes, bool injected) {
  ++stats_.num_ooms;
  const size_t live = now_of(stats_.allocated_bytes);
  const size_t unused = now_of(stats_.reserved_bytes) - live;
  const size_t free = capacity_ > live ? capacity_ - live : 0;
  TORCH_CHECK_WITH(OutOfMemoryError,
                   false,
                   "fake out of memory. Tried to allocate ",
                   told_apart(bytes, free),
                   ". Device ",
                   static_cast<int>(device_),
                   " has a total capacity of ",
                   human_bytes(capacity_),
                   " of which ",
                   told_apart(free, bytes),
                   " is free",
                   injected ? ", but this allocation was to fail. " : ". ",
                   human_bytes(live),
                   " is allocated by tensors, and ",
                   human_bytes(unused),
                   " is reserved but unallocated.");
}

void DeviceMemory::charge(const MemoryBlock& block, int64_t sign) {
  const auto bytes = static_cast<int64_t>(block.bytes) * sign;
  change(stats_.allocated_bytes, bytes);
  change(stats_.active_bytes, bytes);
  change(stats_.requested_bytes, static_cast<int64_t>(block.requested) * sign);
  change(stats_.allocation, sign);
  change(stats_.active, sign);
}

void DeviceMemory::give_back(size_t offset, const StreamOrder& order, bool watched) {
  const auto node = blocks_.extract(offset);
  if (node.empty()) throw internal_error({.refused = "fake device: memory freed twice"});
  const MemoryBlock& block = node.mapped();
  if (watched && block.charged) {
    for (const MemoryUse& use : block.uses.all()) {
      const size_t stream = use.moment.stream;
      const bool recorded = stream == block.stream || block.recorded.contains(stream);
      if (!recorded && !order.stream_knows(block.stream, use.moment))
        left_.push_back({block.stream, use});
    }
  }
  if (poison_) std::memset(kernel_address(device_, offset), 0xFF, block.bytes);
  if (block.charged) charge(block, -1);
  heap_.give_back(offset, block.bytes);
}

std::optional<MemoryUse> DeviceMemory::freed_too_early(size_t stream, const StreamOrder& order) {
  std::optional<MemoryUse> found;
  std::erase_if(left_, [&](const Left& left) {
    if (left.pool != stream) return order.host_knows(left.use.moment);
    if (!order.stream_knows(stream, left.use.moment)) {
      if (found) return false;  // the next time
      found = left.use;
    }
    return true;
  });
  return found;
}

void DeviceMemory::empty_cache() {
  const size_t live = now_of(stats_.allocated_bytes), reserved = now_of(stats_.reserved_bytes);
  if (reserved > live) ++stats_.num_device_free;
  change(stats_.reserved_bytes, -static_cast<int64_t>(reserved - live));
  for (const auto& [offset, bytes] : heap_.holes()) give_pages_back(device_, offset, bytes);
}

MemoryBlock* DeviceMemory::block_at(size_t offset) {
  auto found = blocks_.upper_bound(offset);
  if (found == blocks_.begin()) return nullptr;
  found = std::prev(found);
  return offset < found->first + found->second.bytes ? &found->second : nullptr;
}

void DeviceMemory::fail_allocation(int64_t nth, bool all_after) {
  fail_in_ = nth;
  fail_all_after_ = all_after;
}

void DeviceMemory::each_stat(void (Stat::*change)()) {
  for (StatArray* array : {&stats_.allocation,
                           &stats_.active,
                           &stats_.allocated_bytes,
                           &stats_.reserved_bytes,
                           &stats_.active_bytes,
                           &stats_.requested_bytes}) {
    for (Stat& stat : *array) (stat.*change)();
  }
}

void DeviceMemory::reset_accumulated() {
  each_stat(&Stat::reset_accumulated);
  stats_.num_alloc_retries = stats_.num_ooms = 0;
}

void DeviceMemory::reset_peak() { each_stat(&Stat::reset_peak); }

}  // namespace muster::testing
