#include "muster/testing/cpu/limited_cpu.h"

#include <atomic>

#include "muster/base/error.h"

namespace muster::testing {
namespace {

std::atomic<bool> limited_cpu_lives{false};

}  // namespace

LimitedCpu::OnlyOne::OnlyOne() {
  if (limited_cpu_lives.exchange(true)) {
    throw usage_error({.refused = "a second LimitedCpu",
                       .rule = "there is one CPU memory, so there is one at a time",
                       .hint = "end the other one first"});
  }
}

LimitedCpu::OnlyOne::~OnlyOne() { limited_cpu_lives.store(false); }

LimitedCpu::LimitedCpu() : refused_before_(memory::refused_cpu_allocations()) {}

LimitedCpu::~LimitedCpu() {
  memory::set_cpu_capacity(0);
  memory::fail_cpu_allocation(0);
}

void LimitedCpu::set_capacity(int64_t bytes) { memory::set_cpu_capacity(bytes); }

void LimitedCpu::fail_allocation(int64_t nth, bool all_after, memory::FailingThreads threads) {
  memory::fail_cpu_allocation(nth, all_after, threads);
}

FakeMemory LimitedCpu::memory() const {
  const memory::Counters counters = memory::cpu_counters();
  return {.live = counters.current,
          .peak = counters.peak,
          .reserved = counters.current,
          .allocations = counters.allocations,
          .blocks = memory::live_cpu_blocks(),
          .out_of_memory = memory::refused_cpu_allocations() - refused_before_};
}

void LimitedCpu::reset_peak() { memory::reset_cpu_peak(); }

}  // namespace muster::testing
