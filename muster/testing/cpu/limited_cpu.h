// CPU memory that can be full: out-of-memory in tests, on any machine.
#pragma once

#include <cstdint>

#include "muster/memory/allocator/cpu_memory.h"
#include "muster/testing/accelerator/fake_accelerator.h"

namespace muster::testing {

/// While it lives, CPU tensors have a capacity and allocations can be made to fail, in the words of
/// FakeAccelerator: what does not fit throws c10::OutOfMemoryError (a machine's own memory never
/// does: Linux promises more than it has and kills the process). One at a time; any thread may
/// allocate. With a FakeAccelerator, the first LimitedCpu of the process is made before it. What
/// was allocated before the first recording of memory does not count.
class LimitedCpu {
 public:
  /// Throws a usage error if there is one already.
  LimitedCpu();
  ~LimitedCpu();
  LimitedCpu(const LimitedCpu&) = delete;
  LimitedCpu& operator=(const LimitedCpu&) = delete;

  /// From now on; 0: none. May be less than what is live.
  void set_capacity(int64_t bytes);
  /// The nth allocation from now on (1: the next) throws c10::OutOfMemoryError, and with
  /// `all_after` those behind it. 0 takes that back. Of all threads, or of those that have a
  /// memory::FailingThread. The number of allocations in a step is the difference of
  /// memory().allocations around it: a loop over all of them fails each.
  void fail_allocation(int64_t nth,
                       bool all_after = false,
                       memory::FailingThreads threads = memory::FailingThreads::kAll);
  /// `reserved` equals `live`: freed memory goes back at once.
  FakeMemory memory() const;
  void reset_peak();

 private:
  struct OnlyOne {
    OnlyOne();
    ~OnlyOne();
    OnlyOne(const OnlyOne&) = delete;
    OnlyOne& operator=(const OnlyOne&) = delete;
  };
  OnlyOne only_one_;
  memory::Recording recording_{memory::Level::kCounters};
  int64_t refused_before_ = 0;
};

}  // namespace muster::testing
