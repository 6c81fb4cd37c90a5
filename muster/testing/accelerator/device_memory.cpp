#include "muster/testing/accelerator/device_memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include <c10/util/Exception.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/memory/allocator/refusal.h"
#include "muster/tensor/device/device_memory.h"

namespace muster::testing {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;

constexpr size_t kBlockStep = tensor::kBlockBytes;
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

void DeviceMemory::begin(const FakeAcceleratorOptions& options) {
  settle();
  capacity_ = static_cast<size_t>(options.bytes_per_device);
  poison_ = options.poison;
  in_pieces_ = options.in_pieces;
  late_frees_ = options.late_frees;
  fail_in_ = 0;
  left_.clear();
  stats_ = {};
  for (auto& [offset, block] : blocks_) {
    block.charged = false;
    block.recorded.clear();
    block.uses.clear();
  }
}

size_t DeviceMemory::allocate(size_t bytes, size_t stream) {
  const size_t rounded = (bytes + kBlockStep - 1) / kBlockStep * kBlockStep;
  if (fails_now()) throw_out_of_memory(rounded, true);
  make_room(rounded);
  if (now_of(stats_.active_bytes) + rounded > capacity_) throw_out_of_memory(rounded, false);
  const std::optional<size_t> offset =
      heap_.allocate(rounded, in_pieces_ ? capacity_ : kRegionBytes);
  if (!offset)
    throw_out_of_memory(rounded,
                        false);  // only holes, between tensors of older accelerators at least
  MemoryBlock block{.bytes = rounded,
                    .requested = bytes,
                    .stream = stream,
                    .tag = memory::this_thread_tag(bytes)};
  charge(block, 1);
  blocks_.emplace(*offset, std::move(block));
  if (const size_t needs = kept(), reserved = now_of(stats_.reserved_bytes); needs > reserved) {
    change(stats_.reserved_bytes, static_cast<int64_t>(needs - reserved));
    ++stats_.num_device_alloc;
  }
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
  const size_t active = now_of(stats_.active_bytes), reserved = now_of(stats_.reserved_bytes);
  if (active + bytes <= capacity_ && reserved <= capacity_) return;
  if (reserved <= kept()) return;
  ++stats_.num_alloc_retries;
  empty_cache();
}

/// What cannot be given back: blocks that are in use, and in one piece what lies between them.
size_t DeviceMemory::kept() const {
  const size_t active = now_of(stats_.active_bytes);
  if (!in_pieces_) return active;
  size_t end = 0;
  if (!blocks_.empty()) end = blocks_.rbegin()->first + blocks_.rbegin()->second.bytes;
  if (!late_.empty()) end = std::max(end, late_.rbegin()->first + late_.rbegin()->second);
  return std::max(active, end);
}

void DeviceMemory::throw_out_of_memory(size_t bytes, bool injected) {
  ++stats_.num_ooms;
  const size_t live = now_of(stats_.allocated_bytes), used = kept();
  const size_t unused = now_of(stats_.reserved_bytes) - live;
  const size_t free = capacity_ > used ? capacity_ - used : 0;
  const std::string words = concat("fake out of memory. Tried to allocate ",
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
  tell(bytes, injected, words);
  TORCH_CHECK_WITH(OutOfMemoryError, false, words);
  throw internal_error({.refused = "fake device: a refusal"});  // not reached: the check has thrown
}

/// To whoever listens, with all that lives.
void DeviceMemory::tell(size_t bytes, bool injected, const std::string& words) const {
  if (!memory::refusals_are_heard()) return;
  const size_t live = now_of(stats_.allocated_bytes), active = now_of(stats_.active_bytes);
  const size_t reserved = now_of(stats_.reserved_bytes);
  const size_t idle = reserved - active;
  memory::Refusal refusal{.device = c10::Device(c10::DeviceType::PrivateUse1, device_),
                          .asked = static_cast<int64_t>(bytes),
                          .live = static_cast<int64_t>(live),
                          .idle = static_cast<int64_t>(reserved - live),
                          .pending = static_cast<int64_t>(active - live),
                          .capacity = static_cast<int64_t>(capacity_),
                          .was_to_fail = injected,
                          .words = words};
  refusal.largest_idle =
      static_cast<int64_t>(in_pieces_ ? std::min(idle, heap_.largest(kept())) : idle);
  refusal.each_block = [this](const std::function<void(const memory::HeldBlock&)>& visit) {
    for (const auto& [offset, block] : blocks_) {
      if (!block.charged) continue;
      visit({.address = reinterpret_cast<uintptr_t>(shown_address(device_, offset)),
             .bytes = static_cast<int64_t>(block.bytes),
             .tag = block.tag});
    }
  };
  memory::tell_refusal(refusal);
}

void DeviceMemory::charge(const MemoryBlock& block, int64_t sign) {
  const auto bytes = static_cast<int64_t>(block.bytes) * sign;
  change(stats_.allocated_bytes, bytes);
  change(stats_.active_bytes, bytes);
  change(stats_.requested_bytes, static_cast<int64_t>(block.requested) * sign);
  change(stats_.allocation, sign);
  change(stats_.active, sign);
}

void DeviceMemory::settle() {
  for (const auto& [offset, bytes] : late_) {
    change(stats_.active_bytes, -static_cast<int64_t>(bytes));
    change(stats_.active, -1);
    heap_.give_back(offset, bytes);
  }
  late_.clear();
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
  if (late_frees_ && block.charged && !block.recorded.empty()) {
    change(stats_.active_bytes, static_cast<int64_t>(block.bytes));
    change(stats_.active, 1);
    late_.emplace(offset, block.bytes);
    return;
  }
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
  const size_t used = kept(), reserved = now_of(stats_.reserved_bytes);
  if (reserved > used) {
    ++stats_.num_device_free;
    change(stats_.reserved_bytes, -static_cast<int64_t>(reserved - used));
  }
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
