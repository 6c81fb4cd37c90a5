// The memory of CPU tensors: counted, told apart by who made it, capped, made to fail.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/Allocator.h>

#include "muster/memory/allocator/block.h"
#include "muster/memory/allocator/counters.h"

namespace muster::memory {

// Note [CPU memory]
// The first Recording puts an allocator in front of LibTorch's CPU allocator. It takes a block as the
// one behind does (Note [What counting costs]), or asks it where that is somebody else's, for 64 bytes
// more, and keeps there whose the block is (block.h). It is never taken away:
// blocks live longer than any recording, and each of them is freed by whoever made it. What was
// allocated before, or by others, is neither counted nor listed. Without a Recording an allocation
// costs the 64 bytes and a few instructions.
//
// It sees what asks c10::GetCPUAllocator(): tensors, and oneDNN's scratchpads. It does not see
// the standard library's containers, memory that at::from_blob was given, pinned memory, and what
// MKL takes for itself; other_heap_bytes() counts those together.

/// What is recorded of a block.
enum class Level : uint8_t {
  kOff,
  kCounters,  ///< L0: bytes and how many
  kTags,    ///< L1: and the scope, the operator, the iteration, the thread; live blocks are listed
  kLayers,  ///< L2: and the layer whose parameters the operator took; inputs of operators are seen
};

/// While it lives, CPU blocks are recorded to this level at least. Any thread, any number of them.
/// Operators of forwards are named from kTags on, for 0.3 to 1 us each. Throws an environment
/// error where another allocator stands in the way: one of a higher priority, or that of a
/// testing::FakeAccelerator, which is to be made after the first Recording.
class Recording {
 public:
  explicit Recording(Level level);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// Of Level::kTags: how blocks of a forward get the operator that made them, and whether it would
  /// build a graph. By habit: Note [Habits], where all recordings of that level say so.
  enum class Names : uint8_t { kTold, kByHabit };
  void name_operators(Names names);

 private:
  Level level_;
  Names names_ = Names::kTold;
};

/// The highest of all recordings.
Level recorded_level();

/// Of CPU blocks that were allocated under a Recording. `current` equals `requested`.
Counters cpu_counters();
void reset_cpu_peak();
int64_t live_cpu_blocks();

/// Allocations beyond so many bytes (of `cpu_counters().current`) throw c10::OutOfMemoryError. 0:
/// no limit. May be less than what is live. Throws a usage error below 0.
void set_cpu_capacity(int64_t bytes);
int64_t cpu_capacity();

/// Whose allocations count and fail.
enum class FailingThreads : uint8_t { kAll, kMarked };

/// The nth recorded allocation from now on (1: the next) throws c10::OutOfMemoryError, and with
/// `all_after` those behind it. 0 takes that back. `threads`: those of a FailingThread alone.
/// Throws a usage error below 0.
void fail_cpu_allocation(int64_t nth,
                         bool all_after = false,
                         FailingThreads threads = FailingThreads::kAll);
/// How many allocations were refused so far, by the capacity or because they were to fail.
int64_t refused_cpu_allocations();

/// Marks the calling thread for fail_cpu_allocation() while it lives.
class FailingThread {
 public:
  FailingThread();
  ~FailingThread();
  FailingThread(const FailingThread&) = delete;
  FailingThread& operator=(const FailingThread&) = delete;

 private:
  bool before_;
};

/// A CPU block with tags.
struct LiveBlock {
  int64_t bytes = 0;
  std::string scope;  ///< "train/decoder"; "" outside of scopes
  std::string op;     ///< "aten::linear", "AddmmBackward0"; "" outside of operators
  std::string layer;  ///< of Level::kLayers
  /// In which it was allocated; a process's second Tracker goes on where the first one ended.
  uint32_t iteration = 0;
  int thread = 0;  ///< 1 is the first thread that allocated
  Owner owner = Owner::kOther;
};

/// In no order. Takes about 0.2 us for each.
std::vector<LiveBlock> live_blocks();

/// Bytes of live blocks by owner, now and when they were the most; of Level::kTags.
using OwnerBytes = std::array<int64_t, kOwners>;
OwnerBytes cpu_owner_bytes();
OwnerBytes cpu_owner_bytes_at_peak();
/// By layer_id(), of Level::kLayers.
std::vector<int64_t> cpu_layer_bytes();
std::vector<int64_t> cpu_layer_bytes_at_peak();

/// The number that blocks get from now on; a Tracker's business.
void set_memory_iteration(uint32_t iteration);
uint32_t memory_iteration();

/// Bytes of the C library's heap in use that are not recorded CPU blocks: containers, graphs'
/// nodes, caches of kernels. 0 where the heap does not tell (sanitizers, other C libraries). Takes
/// the heap's locks: once per iteration.
int64_t other_heap_bytes();

/// The block of `data` if it is one of ours, else null; private to this room, as what follows.
Block* block_of(const c10::DataPtr& data);
BlockLists& block_lists();
/// 1 and so on, in the order in which threads allocate or ask.
uint16_t this_thread_number();
/// Its bytes count as the owner's from now on.
void mark_owner(Block& block, Owner owner);

}  // namespace muster::memory
