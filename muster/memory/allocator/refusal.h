// Failed allocations, told at the moment of the failure, while whoever holds the memory still lives.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <c10/core/Device.h>

#include "muster/memory/allocator/tag.h"

namespace muster::memory {

/// A block that a tensor holds.
struct HeldBlock {
  uint64_t address = 0;  ///< as tensors show it
  int64_t bytes = 0;
  BlockTag tag;
};

/// An allocation that is about to throw. Bytes.
struct Refusal {
  c10::Device device = c10::Device(c10::kCPU);
  int64_t asked = 0;
  int64_t live = 0;  ///< held by tensors
  int64_t idle = 0;  ///< held by the allocator, in no tensor
  /// Of `idle`, blocks whose tensors are gone but which wait for a stream.
  int64_t pending = 0;
  std::optional<int64_t> largest_idle;  ///< the largest block of `idle` that could be had
  std::optional<int64_t> capacity;      ///< what was set for this allocator
  bool was_to_fail = false;             ///< a test had asked for this failure
  std::string_view words;               ///< what will be thrown
  /// Calls back for each block that lives, if the allocator knows them, under its locks.
  std::function<void(const std::function<void(const HeldBlock&)>&)> each_block;
};

/// Called in the thread that allocates, perhaps under locks of the allocator's: it may take memory
/// of the C library, but no tensor's. What it throws is dropped.
using RefusalListener = void (*)(const Refusal&);

/// One for the process; null: nobody. It may be called for a little longer than it is set.
void set_refusal_listener(RefusalListener listener);

/// Whether anybody listens: else a refusal need not be described.
bool refusals_are_heard();

/// An allocator's to call, right before it throws.
void tell_refusal(const Refusal& refusal) noexcept;

}  // namespace muster::memory
