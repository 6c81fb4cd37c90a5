// The allocator that stands in front of LibTorch's: Note [CPU memory].
#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <new>
#include <string>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include "muster/base/text.h"
#include "muster/memory/allocator/cpu_state.h"
#include "muster/memory/allocator/events.h"
#include "muster/memory/allocator/maker.h"
#include "muster/memory/allocator/refusal.h"

namespace muster::memory {
namespace {

constexpr size_t kMostBytes = std::numeric_limits<ptrdiff_t>::max() - sizeof(Block);

std::string exact_bytes(int64_t bytes) {
  return concat(human_bytes(static_cast<uint64_t>(bytes)), " (", bytes, " bytes)");
}

BlockTag tag_of(const Block& block) {
  return {.scope = block.scope,
          .op = block.op,
          .layer = block.layer,
          .iteration = block.iteration,
          .owner = block.owner.load(kRelaxed)};
}

/// Whoever holds memory still lives.
void describe_refusal(size_t bytes, int64_t live, const std::string& words, bool was_to_fail) {
  CpuMemory& memory = cpu_memory();
  const int64_t capacity = memory.capacity.load(kRelaxed);
  if (cpu_events().is_on()) {
    cpu_events().add({.address = static_cast<uint64_t>(std::max<int64_t>(0, capacity - live)),
                      .bytes = static_cast<int64_t>(bytes),
                      .tag = this_thread_tag(static_cast<int64_t>(bytes)),
                      .thread = this_thread_number(),
                      .kind = AllocationEvent::Kind::kRefused});
  }
  if (!refusals_are_heard()) return;
  Refusal refusal{.asked = static_cast<int64_t>(bytes),
                  .live = live,
                  .was_to_fail = was_to_fail,
                  .words = words};
  if (capacity > 0) refusal.capacity = capacity;
  refusal.each_block = [&memory](const std::function<void(const HeldBlock&)>& visit) {
    memory.lists.each([&](Block& block) {
      visit({.address = reinterpret_cast<uintptr_t>(block.data()),
             .bytes = block.bytes,
             .tag = tag_of(block)});
    });
  };
  tell_refusal(refusal);
}

[[noreturn]] void throw_out_of_memory(size_t bytes,
                                      int64_t live,
                                      std::string_view why,
                                      bool was_to_fail = false) {
  CpuMemory& memory = cpu_memory();
  memory.refused.fetch_add(1, kRelaxed);
  const std::string scope = name_of(this_thread_state.scope);
  const std::string words = concat("CPU out of memory. Tried to allocate ",
                                   exact_bytes(static_cast<int64_t>(bytes)),
                                   scope.empty() ? "" : " in scope \"" + scope + "\"",
                                   ". ",
                                   exact_bytes(live),
                                   " is allocated by tensors. ",
                                   why);
  describe_refusal(bytes, live, words, was_to_fail);
  TORCH_CHECK_WITH(OutOfMemoryError, false, words);
  throw std::bad_alloc();  // not reached: the check has thrown
}

/// Charges the bytes, or throws with nothing changed. Returns what is live with them.
int64_t admit(size_t size) {
  CpuMemory& memory = cpu_memory();
  const auto bytes = static_cast<int64_t>(size);
  if (memory.faults.fails_now())
    throw_out_of_memory(size, memory.current.load(kRelaxed), "This allocation was to fail.", true);
  const int64_t now = memory.current.fetch_add(bytes, kRelaxed) + bytes;
  const int64_t capacity = memory.capacity.load(kRelaxed);
  if (capacity > 0 && now > capacity) {
    memory.current.fetch_sub(bytes, kRelaxed);
    const int64_t live = now - bytes, free = capacity > live ? capacity - live : 0;
    throw_out_of_memory(size,
                        live,
                        concat("The CPU has a total capacity of ",
                               exact_bytes(capacity),
                               " of which ",
                               exact_bytes(free),
                               " is free."));
  }
  memory.allocations.fetch_add(1, kRelaxed);
  return now;
}

/// Whether it rose.
bool raise_peak(int64_t now) {
  CpuMemory& memory = cpu_memory();
  int64_t peak = memory.peak.load(kRelaxed);
  if (now <= peak) return false;
  while (now > peak && !memory.peak.compare_exchange_weak(peak, now, kRelaxed)) {
  }
  return true;
}

// Note [What counting costs]
// At Level::kCounters a block is to cost hardly more than without us: 0.1 % of a step of small operators
// are 30 instructions for its beginning and end. So LibTorch's own allocator is not asked for raw memory,
// which takes 160 instructions for a block beside malloc's: what it does is done here, and its profilers
// of memory hear the same. What is done for each block is inline; what may throw, or is done for tags,
// stands in functions of its own, so that no register is saved for it.

/// Whether LibTorch's profilers of memory ask.
inline bool is_profiled() {
  return FLAGS_caffe2_report_cpu_memory_usage || c10::memoryProfilingEnabled();
}

/// For a block of so many bytes, which are counted already or not. In a handler.
[[noreturn]] __attribute__((noinline)) void refuse_as_inner(size_t bytes, bool is_counted) {
  CpuMemory& memory = cpu_memory();
  if (is_counted) {
    memory.current.fetch_sub(static_cast<int64_t>(bytes), kRelaxed);
    memory.allocations.fetch_sub(1, kRelaxed);
  }
  if (memory.inner_is_default) c10::profiledCPUMemoryReporter().OutOfMemory(bytes + sizeof(Block));
  try {
    throw;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {  // what LibTorch's own allocator throws
    throw_out_of_memory(bytes, memory.current.load(kRelaxed), error.what_without_backtrace());
  }
}

__attribute__((noinline)) void* from_other(size_t bytes) {
  return cpu_memory().inner->raw_allocate(bytes);
}

__attribute__((noinline)) void tell_profilers_of_new(void* base, size_t bytes) {
  c10::profiledCPUMemoryReporter().New(base, bytes);
}

/// Without tags.
__attribute__((always_inline)) inline Block* new_block(size_t bytes, bool is_counted) {
  const bool is_default = cpu_memory().inner_is_default;
  const size_t all = bytes + sizeof(Block);
  void* base = nullptr;
  try {
    base = is_default ? c10::alloc_cpu(all) : from_other(all);
  } catch (...) {
    refuse_as_inner(bytes, is_counted);
  }
  if (is_default && is_profiled()) tell_profilers_of_new(base, all);
  auto* const block = new (base) Block;
  block->bytes = static_cast<int64_t>(bytes);
  block->mark = Block::seal(block->data());
  return block;
}

__attribute__((noinline)) void give_back_told(void* base) {
  c10::profiledCPUMemoryReporter().Delete(base);
  c10::free_cpu(base);
}

inline void give_back(void* base) {
  CpuMemory& memory = cpu_memory();
  if (!memory.inner_is_default) return memory.give_back(base);
  if (is_profiled()) return give_back_told(base);
  c10::free_cpu(base);
}

void note_event(Block& block, AllocationEvent::Kind kind) {
  cpu_events().add({.address = reinterpret_cast<uintptr_t>(block.data()),
                    .bytes = block.bytes,
                    .tag = tag_of(block),
                    .thread = block.thread,
                    .kind = kind});
}

void tag(Block& block, Level level) {
  CpuMemory& memory = cpu_memory();
  const ThreadState& thread = this_thread_state;
  const Maker maker = maker_of(level, block.bytes);
  block.scope = maker.scope;
  block.op = maker.op;
  block.layer = level >= Level::kLayers ? thread.layer : 0;
  block.iteration = memory.iteration.load(kRelaxed);
  block.thread = this_thread_number();
  if (maker.in_backward) {
    block.flags |= Block::kBackward;
    block.owner.store(Owner::kGradient, kRelaxed);
  } else if (maker.builds_graph) {
    block.owner.store(Owner::kActivation, kRelaxed);
  }
  if (maker.builds_graph) block.flags |= Block::kGradMode;
  block.flags |= Block::kListed;
  memory.shares.add(block.owner.load(kRelaxed), block.layer, block.bytes);
  memory.lists.add(block);
  if (cpu_events().is_on()) note_event(block, AllocationEvent::Kind::kAllocated);
}

/// What lies before memory of others may be nobody's; only there it is read.
__attribute__((no_sanitize("address"))) bool is_ours(const void* data) {
  return Block::of(const_cast<void*>(data))->mark == Block::seal(data);
}

__attribute__((noinline)) void unlist(Block& block) {
  CpuMemory& memory = cpu_memory();
  if (cpu_events().is_on()) note_event(block, AllocationEvent::Kind::kFreed);
  memory.lists.remove(block);
  memory.shares.add(block.owner.load(kRelaxed), block.layer, -block.bytes);
}

void drop(void* data) {
  if (data == nullptr) return;
  CpuMemory& memory = cpu_memory();
  if (!is_ours(data)) {  // raw memory of the time before us
    memory.give_back(data);
    return;
  }
  Block& block = *Block::of(data);
  if ((block.flags & Block::kCounted) != 0) {
    memory.shares.leave_peak();
    if ((block.flags & Block::kListed) != 0) unlist(block);
    memory.current.fetch_sub(block.bytes, kRelaxed);
    memory.freed.fetch_add(1, kRelaxed);
  }
  block.mark = 0;
  give_back(&block);
}

/// One that may be refused, or gets tags: by a level above kCounters, a capacity, or a fault.
__attribute__((noinline)) Block* other_block(size_t bytes) {
  CpuMemory& memory = cpu_memory();
  if (bytes > kMostBytes)
    throw_out_of_memory(bytes, memory.current.load(kRelaxed), "No machine has that.");
  const Level level = memory.level.load(kRelaxed);
  if (level == Level::kOff) return new_block(bytes, /*is_counted=*/false);
  const int64_t live = admit(bytes);
  Block* const block = new_block(bytes, /*is_counted=*/true);
  block->flags = Block::kCounted;
  if (level >= Level::kTags) tag(*block, level);
  // Whose the bytes of a peak are is asked of tagged blocks alone: else no copy is made.
  if (raise_peak(live) && level >= Level::kTags) memory.shares.peak_rose();
  return block;
}

/// Of memory that is not limited.
__attribute__((always_inline)) inline Block* counted_block(size_t bytes) {
  CpuMemory& memory = cpu_memory();
  Block* const block = new_block(bytes, /*is_counted=*/false);
  if (memory.level.load(kRelaxed) == Level::kOff) return block;
  block->flags = Block::kCounted;
  raise_peak(memory.current.fetch_add(block->bytes, kRelaxed) + block->bytes);
  memory.allocations.fetch_add(1, kRelaxed);
  return block;
}

class TaggedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    ++this_thread_state.allocations;
    if (bytes == 0) return {nullptr, nullptr, &drop, c10::Device(c10::kCPU)};
    const CpuMemory& memory = cpu_memory();
    const bool only_counts = memory.level.load(kRelaxed) <= Level::kCounters &&
                             memory.capacity.load(kRelaxed) == 0 && !memory.faults.is_armed() &&
                             bytes <= kMostBytes;
    Block* const block = only_counts ? counted_block(bytes) : other_block(bytes);
    return {block->data(), block->data(), &drop, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &drop; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

c10::Allocator* make_tagged_allocator() { return new TaggedAllocator; }

Block* block_of(const c10::DataPtr& data) {
  return data.get() != nullptr && data.get_deleter() == &drop ? Block::of(data.get()) : nullptr;
}

}  // namespace muster::memory
