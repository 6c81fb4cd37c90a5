#include "muster/testing/accelerator/pinned_memory.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

#include <ATen/core/CachingHostAllocator.h>

#include "muster/testing/accelerator/machine.h"

namespace muster::testing {
namespace {

constexpr size_t kPinnedStep = 64;

struct PinnedRanges {
  std::mutex mutex;
  std::map<const char*, size_t> bytes;  // by start
  c10::CachingAllocator::Stat blocks, all_bytes;

  void add(const char* start, size_t rounded) {
    const std::lock_guard lock(mutex);
    bytes[start] = rounded;
    blocks.increase(1);
    all_bytes.increase(rounded);
  }
  void remove(const char* start) {
    const std::lock_guard lock(mutex);
    const auto found = bytes.find(start);
    if (found == bytes.end()) return;
    blocks.decrease(1);
    all_bytes.decrease(found->second);
    bytes.erase(found);
  }
};

PinnedRanges& pinned_ranges() {
  static auto* const ranges = new PinnedRanges;
  return *ranges;
}

void free_pinned(void* pointer) {
  if (pointer == nullptr) return;
  pinned_ranges().remove(static_cast<const char*>(pointer));
  std::free(pointer);
}

/// LibTorch's versions have two sets of names. Nothing is kept for the next who asks.
template <class Stats>
void fill_pinned(const PinnedRanges& ranges, Stats& stats) {
  stats.allocated_bytes = ranges.all_bytes;
  if constexpr (requires { stats.active_bytes; }) {
    stats.active_bytes = ranges.all_bytes;
    stats.active_requests = ranges.blocks;
    stats.allocations = ranges.blocks;
  } else {
    stats.allocation = ranges.blocks;
  }
}

/// Counts what is in use, as CUDA's does.
class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const size_t rounded =
        (std::max<size_t>(bytes, 1) + kPinnedStep - 1) / kPinnedStep * kPinnedStep;
    void* const start = std::aligned_alloc(kPinnedStep, rounded);
    if (start == nullptr) throw std::bad_alloc();
    pinned_ranges().add(static_cast<const char*>(start), rounded);
    return {start, start, &free_pinned, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  /// Copies hold on to their memory by themselves.
  bool record_event(void* pointer, void*, c10::Stream) override { return is_pinned(pointer); }
  void empty_cache() override {}
  at::HostStats get_stats() override {
    at::HostStats stats;
    const std::lock_guard lock(pinned_ranges().mutex);
    fill_pinned(pinned_ranges(), stats);
    return stats;
  }
  void reset_accumulated_stats() override {
    const std::lock_guard lock(pinned_ranges().mutex);
    pinned_ranges().blocks.reset_accumulated();
    pinned_ranges().all_bytes.reset_accumulated();
  }
  void reset_peak_stats() override {
    const std::lock_guard lock(pinned_ranges().mutex);
    pinned_ranges().blocks.reset_peak();
    pinned_ranges().all_bytes.reset_peak();
  }
};

PinnedAllocator& the_pinned_allocator() {
  static auto* const allocator = new PinnedAllocator;
  return *allocator;
}

}  // namespace

c10::Allocator* pinned_allocator() { return &the_pinned_allocator(); }

void register_pinned_allocator() { at::setHostAllocator(kFake, &the_pinned_allocator()); }

bool is_pinned(const void* pointer) {
  const auto* const at = static_cast<const char*>(pointer);
  const std::lock_guard lock(pinned_ranges().mutex);
  auto found = pinned_ranges().bytes.upper_bound(at);
  if (found == pinned_ranges().bytes.begin()) return false;
  --found;
  return at < found->first + found->second;
}

}  // namespace muster::testing
