// What there is once per process of the recorded CPU memory.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include <c10/core/Allocator.h>

#include "muster/memory/allocator/block.h"
#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/allocator/names.h"
#include "muster/memory/allocator/thread_state.h"

namespace muster::memory {

inline constexpr auto kRelaxed = std::memory_order_relaxed;

/// Which allocations are to fail.
class FaultCount {
 public:
  void set(int64_t nth, bool all_after, FailingThreads threads) {
    const std::lock_guard lock(mutex_);
    left_ = nth;
    all_after_ = all_after;
    threads_ = threads;
    armed_.store(nth > 0, std::memory_order_release);
  }
  bool is_armed() const { return armed_.load(std::memory_order_acquire); }
  bool fails_now() {
    if (!is_armed()) return false;
    const std::lock_guard lock(mutex_);
    if (threads_ == FailingThreads::kMarked && !this_thread_state.marked) return false;
    if (left_ == 0 || --left_ > 0) return false;
    if (all_after_) left_ = 1;
    return true;
  }

 private:
  std::atomic<bool> armed_{false};
  std::mutex mutex_;
  int64_t left_ = 0;
  bool all_after_ = false;
  FailingThreads threads_ = FailingThreads::kAll;
};

/// Bytes by owner and by layer, and what they were at the peak. A copy is made when the first block
/// is freed behind a new peak, not at each of the allocations that lead to it.
class Shares {
 public:
  void add(Owner owner, uint32_t layer, int64_t bytes) {
    owners_[static_cast<size_t>(owner)].fetch_add(bytes, kRelaxed);
    if (layer != 0) layers_[layer].fetch_add(bytes, kRelaxed);
  }
  void move(Owner from, Owner to, int64_t bytes) {
    owners_[static_cast<size_t>(from)].fetch_sub(bytes, kRelaxed);
    owners_[static_cast<size_t>(to)].fetch_add(bytes, kRelaxed);
  }
  void peak_rose() {
    if (!at_peak_.load(kRelaxed)) at_peak_.store(true, kRelaxed);
  }
  void leave_peak() {
    if (at_peak_.load(kRelaxed)) keep_peak();
  }

  OwnerBytes owners() const {
    OwnerBytes bytes{};
    for (size_t i = 0; i < kOwners; ++i) bytes[i] = owners_[i].load(kRelaxed);
    return bytes;
  }
  std::vector<int64_t> layers() const {
    std::vector<int64_t> bytes(layer_count());
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = layers_[i].load(kRelaxed);
    return bytes;
  }
  OwnerBytes owners_at_peak() {
    leave_peak();
    const std::lock_guard lock(mutex_);
    return owners_at_peak_;
  }
  std::vector<int64_t> layers_at_peak() {
    leave_peak();
    const std::lock_guard lock(mutex_);
    return layers_at_peak_;
  }

 private:
  __attribute__((noinline)) void keep_peak() {
    if (!at_peak_.exchange(false)) return;
    const std::lock_guard lock(mutex_);
    owners_at_peak_ = owners();
    layers_at_peak_ = layers();
  }

  std::array<std::atomic<int64_t>, kOwners> owners_{};
  std::array<std::atomic<int64_t>, kMostLayers> layers_{};
  std::atomic<bool> at_peak_{false};
  std::mutex mutex_;
  OwnerBytes owners_at_peak_{};
  std::vector<int64_t> layers_at_peak_;
};

/// All that there is once per process.
struct CpuMemory {
  // Set before ours stands in front:
  c10::Allocator* inner = nullptr;
  c10::DeleterFnPtr give_back = nullptr;  // how `inner` frees
  bool inner_is_default = false;          // LibTorch's own
  std::atomic<Level> level{Level::kOff};
  std::atomic<int64_t> current{0}, peak{0}, allocations{0}, freed{0}, refused{0};
  std::atomic<int64_t> capacity{0};
  std::atomic<uint32_t> iteration{0};
  std::atomic<uint16_t> threads{0};
  std::atomic<bool> names_are_told{false};  // by LibTorch, at kTags
  std::atomic<bool> names_are_missing{
      false};  // some allocation had no habit; written under the mutex
  FaultCount faults;
  Shares shares;
  BlockLists lists;
  std::mutex mutex;  // of what follows
  std::array<int, 4> recordings{};
  int nameless = 0;  // of those of kTags, which take operators' names from habits
  c10::Allocator* ours = nullptr;
};

/// There from the start to the very end: blocks are freed when other objects are gone.
union CpuMemoryForEver {
  constexpr CpuMemoryForEver() : memory() {}
  CpuMemoryForEver(const CpuMemoryForEver&) = delete;
  CpuMemoryForEver& operator=(const CpuMemoryForEver&) = delete;
  ~CpuMemoryForEver() {}

  CpuMemory memory;
};
inline constinit CpuMemoryForEver cpu_memory_for_ever;
inline CpuMemory& cpu_memory() { return cpu_memory_for_ever.memory; }

/// LibTorch tells names of operators until the next name_operators(). From any allocation.
void miss_names();

/// Does what `cpu_memory().inner` does, or asks it. Lives as long as the process.
c10::Allocator* make_tagged_allocator();

}  // namespace muster::memory
