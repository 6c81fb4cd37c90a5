// The last allocations of CPU tensors: a ring of fixed size. Private to the room.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "muster/memory/allocator/tag.h"

namespace muster::memory {

/// What happened to a block, or did not.
struct AllocationEvent {
  enum class Kind : uint8_t {
    kAllocated,
    kFreed,    ///< tags are those of the block's allocation
    kRefused,  ///< `address`: how many bytes were free
  };
  uint64_t address = 0;
  int64_t bytes = 0;
  int64_t unix_us = 0;
  BlockTag tag;
  uint16_t thread = 0;
  Kind kind = Kind::kAllocated;
};

/// In the order in which they happened. Any thread.
class EventRing {
 public:
  /// Takes the memory for `most` events; what was kept is forgotten.
  void begin(size_t most);
  void end();

  bool is_on() const { return on_.load(std::memory_order_acquire); }
  /// Nothing unless is_on().
  void add(AllocationEvent event);

  struct Kept {
    std::vector<AllocationEvent> events;  ///< oldest first
    uint64_t forgotten = 0;               ///< older ones
  };
  Kept kept() const;

 private:
  std::atomic<bool> on_{false};
  mutable std::mutex mutex_;  // of what follows
  std::vector<AllocationEvent> slots_;
  uint64_t added_ = 0;
};

/// Of the CPU's allocator, for the whole process.
EventRing& cpu_events();

}  // namespace muster::memory
