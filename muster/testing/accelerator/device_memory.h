// The memory of one fake device: its blocks, its cap, its counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <c10/core/CachingDeviceAllocator.h>

#include "muster/memory/allocator/tag.h"
#include "muster/testing/accelerator/addresses.h"
#include "muster/testing/accelerator/device_heap.h"
#include "muster/testing/accelerator/fake_accelerator.h"
#include "muster/testing/accelerator/memory_uses.h"
#include "muster/testing/accelerator/stream_order.h"

namespace muster::testing {

struct MemoryBlock {
  size_t bytes = 0;  // of the heap
  size_t requested = 0;
  size_t stream = 0;          // in whose pool it is when it is free
  bool charged = true;        // false: taken under an accelerator that has ended
  std::set<size_t> recorded;  // record_stream()
  MemoryUses uses;
  memory::BlockTag tag;  // who took it
};

/// The caching of CUDA's allocator, without its fragments but where FakeAcceleratorOptions::in_pieces
/// asks for them: what was freed stays reserved and can serve anything, until memory runs out or
/// empty_cache(). Under the machine's lock.
class DeviceMemory {
 public:
  using Stats = c10::CachingDeviceAllocator::DeviceStats;

  explicit DeviceMemory(c10::DeviceIndex device) : device_(device) {}

  /// A fresh device. Blocks that are still there are nobody's from now on.
  void begin(const FakeAcceleratorOptions& options);

  /// Where a new block lies. Throws c10::OutOfMemoryError.
  size_t allocate(size_t bytes, size_t stream);
  /// `watched`: who may still be at it is remembered.
  void give_back(size_t offset, const StreamOrder& order, bool watched);
  /// A use of memory that was freed in the stream's pool by somebody who did not know of it, and of
  /// whom the stream knows nothing now that it allocates. Each is told of once.
  std::optional<MemoryUse> freed_too_early(size_t stream, const StreamOrder& order);
  void empty_cache();
  /// The host has waited for the device: what waits for streams is free.
  void settle();

  /// The block that the offset lies in, or null.
  MemoryBlock* block_at(size_t offset);

  size_t capacity() const { return capacity_; }
  void set_capacity(size_t bytes) { capacity_ = bytes; }
  void fail_allocation(int64_t nth, bool all_after);
  const Stats& stats() const { return stats_; }
  void reset_accumulated();
  void reset_peak();

 private:
  bool fails_now();
  void make_room(size_t bytes);
  [[noreturn]] void throw_out_of_memory(size_t bytes, bool injected);
  void tell(size_t bytes, bool injected, const std::string& words) const;
  size_t kept() const;
  void charge(const MemoryBlock& block, int64_t sign);
  void each_stat(void (c10::CachingAllocator::Stat::*change)());

  c10::DeviceIndex device_;
  size_t capacity_ = 0;
  bool poison_ = false, in_pieces_ = false, late_frees_ = false;
  int64_t fail_in_ = 0;
  bool fail_all_after_ = false;
  DeviceHeap heap_{kRegionBytes};
  std::map<size_t, MemoryBlock> blocks_;  // by offset
  struct Left {
    size_t pool = 0;
    MemoryUse use;
  };
  std::vector<Left> left_;
  std::map<size_t, size_t> late_;  // offset, bytes: freed, and waiting for a stream
  Stats stats_;
};

}  // namespace muster::testing
