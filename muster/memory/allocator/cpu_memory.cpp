#include "muster/memory/allocator/cpu_memory.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/memory/allocator/cpu_state.h"
#include "muster/memory/allocator/operators.h"
#include "muster/memory/allocator/process_bytes.h"

namespace muster::memory {
namespace {

/// Whether what asks LibTorch's CPU allocator comes to ours.
bool stands_in_the_way() {
  const uint64_t before = this_thread_state.allocations;
  this_thread_state.is_probing = true;
  const c10::DataPtr probe = c10::GetCPUAllocator()->allocate(1);
  this_thread_state.is_probing = false;
  return this_thread_state.allocations != before;
}

[[noreturn]] void refuse_place(std::string_view other, std::string_view hint) {
  throw environment_error({.refused = "recording CPU memory",
                           .rule = "nothing but LibTorch's own allocator is asked before ours",
                           .value = std::string(other),
                           .hint = std::string(hint)});
}

/// Under the mutex.
void install_once(CpuMemory& memory) {
  if (memory.ours == nullptr) {
    c10::Allocator* const there = c10::GetCPUAllocator();
    if (there->raw_deleter() == nullptr)
      refuse_place("a CPU allocator without raw memory", "set no allocator before the recording");
    // Its kernels know their own blocks by the way they are freed.
    if (there != c10::GetDefaultCPUAllocator() &&
        c10::impl::hasDeviceGuardImpl(c10::DeviceType::PrivateUse1))
      refuse_place("the allocator of a fake accelerator",
                   "begin the first memory::Recording before the first FakeAccelerator is made");
    memory.inner = there;
    memory.give_back = there->raw_deleter();
    memory.inner_is_default = there == c10::GetDefaultCPUAllocator();
    c10::Allocator* const ours = make_tagged_allocator();
    // LibTorch passes over an allocator of a lower priority than the one before without a word. 1
    // leaves room for those, a fake accelerator's among them, that go in front of ours.
    for (const uint8_t priority : {uint8_t{1}, uint8_t{255}}) {
      c10::SetCPUAllocator(ours, priority);
      if (c10::GetCPUAllocator() == ours) break;
    }
    memory.ours = ours;
  }
  if (!stands_in_the_way())
    refuse_place("an allocator in front that does not ask ours",
                 "take it away (c10::SetCPUAllocator) while memory is recorded");
}

void update_level(CpuMemory& memory) {
  Level level = Level::kOff;
  for (size_t i = 0; i < memory.recordings.size(); ++i) {
    if (memory.recordings[i] > 0) level = static_cast<Level>(i);
  }
  // From here on shares of a peak are kept; those of an older recording are over.
  if (memory.level.load() < Level::kTags && level >= Level::kTags) memory.shares.peak_rose();
  memory.level.store(level);
  const bool names = memory.names_are_missing.load() ||
                     memory.recordings[static_cast<size_t>(Level::kTags)] > memory.nameless;
  watch_operators(level, names);
  memory.names_are_told.store(level == Level::kTags && names, kRelaxed);
}

}  // namespace

Recording::Recording(Level level) : level_(level) {
  CpuMemory& memory = cpu_memory();
  const std::lock_guard lock(memory.mutex);
  install_once(memory);
  ++memory.recordings[static_cast<size_t>(level_)];
  update_level(memory);
}

Recording::~Recording() {
  name_operators(Names::kTold);
  CpuMemory& memory = cpu_memory();
  const std::lock_guard lock(memory.mutex);
  --memory.recordings[static_cast<size_t>(level_)];
  update_level(memory);
}

void Recording::name_operators(Names names) {
  if (level_ != Level::kTags) return;
  CpuMemory& memory = cpu_memory();
  const std::lock_guard lock(memory.mutex);
  if (names == names_ && !memory.names_are_missing.load()) return;
  memory.nameless += static_cast<int>(names) - static_cast<int>(names_);
  names_ = names;
  memory.names_are_missing.store(false);
  update_level(memory);
}

void miss_names() {
  CpuMemory& memory = cpu_memory();
  const std::unique_lock lock(memory.mutex, std::try_to_lock);  // the lock's holder may allocate
  if (!lock || memory.names_are_missing.load()) return;
  memory.names_are_missing.store(true);
  update_level(memory);
}

Level recorded_level() { return cpu_memory().level.load(kRelaxed); }

Counters cpu_counters() {
  const CpuMemory& memory = cpu_memory();
  const int64_t current = memory.current.load(kRelaxed);
  return {.current = current,
          .peak = std::max(current, memory.peak.load(kRelaxed)),
          .allocations = memory.allocations.load(kRelaxed),
          .requested = current};
}

void reset_cpu_peak() {
  CpuMemory& memory = cpu_memory();
  memory.peak.store(memory.current.load(kRelaxed), kRelaxed);
  if (recorded_level() >= Level::kTags) memory.shares.peak_rose();
}

int64_t live_cpu_blocks() {
  return cpu_memory().allocations.load(kRelaxed) - cpu_memory().freed.load(kRelaxed);
}

void set_cpu_capacity(int64_t bytes) {
  if (bytes < 0) {
    throw usage_error({.refused = "a capacity of the CPU",
                       .rule = "it is a number of bytes above 0, or 0 for none",
                       .value = concat(bytes)});
  }
  cpu_memory().capacity.store(bytes, kRelaxed);
}

int64_t cpu_capacity() { return cpu_memory().capacity.load(kRelaxed); }

void fail_cpu_allocation(int64_t nth, bool all_after, FailingThreads threads) {
  if (nth < 0) {
    throw usage_error({.refused = "an allocation that is to fail",
                       .rule = "1 is the next one, 0 takes it back",
                       .value = concat(nth)});
  }
  cpu_memory().faults.set(nth, all_after, threads);
}

int64_t refused_cpu_allocations() { return cpu_memory().refused.load(kRelaxed); }

FailingThread::FailingThread() : before_(std::exchange(this_thread_state.marked, true)) {}

FailingThread::~FailingThread() { this_thread_state.marked = before_; }

std::vector<LiveBlock> live_blocks() {
  struct Seen {
    int64_t bytes;
    uint32_t scope, op, layer, iteration;
    uint16_t thread;
    Owner owner;
  };
  std::vector<Seen> seen;
  cpu_memory().lists.each([&seen](const Block& block) {
    seen.push_back({block.bytes,
                    block.scope,
                    block.op,
                    block.layer,
                    block.iteration,
                    block.thread,
                    block.owner.load(kRelaxed)});
  });
  std::vector<LiveBlock> blocks;
  blocks.reserve(seen.size());
  for (const Seen& one : seen) {
    blocks.push_back({.bytes = one.bytes,
                      .scope = name_of(one.scope),
                      .op = name_of(one.op),
                      .layer = layer_of(one.layer),
                      .iteration = one.iteration,
                      .thread = one.thread,
                      .owner = one.owner});
  }
  return blocks;
}

OwnerBytes cpu_owner_bytes() { return cpu_memory().shares.owners(); }
OwnerBytes cpu_owner_bytes_at_peak() { return cpu_memory().shares.owners_at_peak(); }
std::vector<int64_t> cpu_layer_bytes() { return cpu_memory().shares.layers(); }
std::vector<int64_t> cpu_layer_bytes_at_peak() { return cpu_memory().shares.layers_at_peak(); }

void set_memory_iteration(uint32_t iteration) { cpu_memory().iteration.store(iteration, kRelaxed); }
uint32_t memory_iteration() { return cpu_memory().iteration.load(kRelaxed); }

int64_t other_heap_bytes() {
  return std::max<int64_t>(0, heap_bytes().in_use - cpu_memory().current.load(kRelaxed));
}

BlockLists& block_lists() { return cpu_memory().lists; }

uint16_t this_thread_number() {
  ThreadState& thread = this_thread_state;
  if (thread.number == 0) thread.number = cpu_memory().threads.fetch_add(1, kRelaxed) + 1;
  return thread.number;
}

void mark_owner(Block& block, Owner owner) {
  if ((block.flags & Block::kListed) == 0) return;
  const Owner before = block.owner.exchange(owner, kRelaxed);
  if (before != owner) cpu_memory().shares.move(before, owner, block.bytes);
}

}  // namespace muster::memory
