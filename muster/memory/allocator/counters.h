// How many bytes tensors hold, in the same words for each kind of memory.
#pragma once

#include <cstdint>
#include <optional>

#include <c10/core/Device.h>

namespace muster::memory {

/// Of one kind of memory. Bytes.
struct Counters {
  int64_t current = 0;      ///< of live blocks, as their allocator rounds them
  int64_t peak = 0;         ///< the most of `current` since the last reset_peak()
  int64_t allocations = 0;  ///< how many blocks so far
  /// Of live blocks, as they were asked for; nothing where the allocator does not tell.
  std::optional<int64_t> requested = 0;
};

/// Of the caching allocator of a device: "cuda:0" and the like. Takes its lock and copies a few
/// hundred bytes: for once per iteration, not per operator. Zeros before the first allocation.
/// Throws an environment error where the device has no such allocator, the CPU among them.
Counters device_counters(c10::Device device);

/// Of the same allocator: bytes of blocks that are freed and not free for others yet, since streams
/// that record_stream() named may still use them. Throws as device_counters().
int64_t waiting_bytes(c10::Device device);

/// Of the same allocator: how many blocks are live. Throws as device_counters().
int64_t live_device_blocks(c10::Device device);

/// `peak` of device_counters() is what is live now.
void reset_device_peak(c10::Device device);

/// Of the pinned host memory that belongs to a kind of device, whose blocks are powers of two.
/// Throws an environment error where the kind has no pinned memory that is counted.
Counters pinned_counters(c10::DeviceType kind);

/// Of the same memory: what is in use, and what is kept for the next who asks. Throws as
/// pinned_counters().
int64_t held_pinned_bytes(c10::DeviceType kind);

}  // namespace muster::memory
