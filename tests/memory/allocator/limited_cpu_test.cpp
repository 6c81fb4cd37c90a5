#include "muster/testing/cpu/limited_cpu.h"

#include "tests/support/error_of.h"

namespace muster::testing {
namespace {

at::Tensor some_bytes(int64_t bytes) { return torch::empty({bytes}, torch::kByte); }

TEST(LimitedCpu, HasTheCapacityItIsGivenAndNoneBehindIt) {
  {
    LimitedCpu cpu;
    const int64_t live = cpu.memory().live;
    cpu.set_capacity(live + 1000);
    const at::Tensor fits = some_bytes(600);
    EXPECT_THROW(some_bytes(401), c10::OutOfMemoryError);
    EXPECT_EQ(cpu.memory().live, live + 600);
    EXPECT_EQ(cpu.memory().out_of_memory, 1);
    const at::Tensor exactly = some_bytes(400);
  }
  const memory::Recording recording(memory::Level::kCounters);
  EXPECT_NO_THROW(some_bytes(100'000));
}

TEST(LimitedCpu, CountsBlocksAndAllocations) {
  LimitedCpu cpu;
  const FakeMemory start = cpu.memory();
  at::Tensor a = some_bytes(10), b = some_bytes(20);
  a = at::Tensor();
  EXPECT_EQ(cpu.memory().allocations - start.allocations, 2);
  EXPECT_EQ(cpu.memory().blocks - start.blocks, 1);
  EXPECT_EQ(cpu.memory().live - start.live, 20);
}

TEST(LimitedCpu, FailsTheNthAllocationAndTakesThatBackAtItsEnd) {
  {
    LimitedCpu cpu;
    cpu.fail_allocation(1, /*all_after=*/true);
    EXPECT_THROW(some_bytes(10), c10::OutOfMemoryError);
  }
  const memory::Recording recording(memory::Level::kCounters);
  EXPECT_NO_THROW(some_bytes(10));
}

TEST(LimitedCpu, ASecondOneIsRefused) {
  LimitedCpu cpu;
  EXPECT_EQ(test::muster_error_of([] { LimitedCpu second; }).kind(), ErrorKind::kUsage);
}

TEST(LimitedCpu, AFakeAcceleratorMadeBehindTheFirstRecordingHasAMemoryOfItsOwn) {
  const LimitedCpu cpu;
  const FakeAccelerator fake({.bytes_per_device = 1 << 20});
  const int64_t on_cpu = cpu.memory().live, on_fake = fake.memory(0).live;
  const at::Tensor there = torch::ones({64, 64}, FakeAccelerator::device(0));
  const at::Tensor product = there.matmul(there);
  EXPECT_EQ(fake.memory(0).live - on_fake, 2 * 64 * 64 * 4);
  EXPECT_EQ(cpu.memory().live, on_cpu);
  const at::Tensor here = product.cpu();
  EXPECT_EQ(cpu.memory().live - on_cpu, 64 * 64 * 4);
  EXPECT_EQ(here[0][0].item<float>(), 64);
  const memory::Counters counters = memory::device_counters(FakeAccelerator::device(0));
  EXPECT_EQ(counters.current, fake.memory(0).live);
  EXPECT_EQ(counters.requested, counters.current);  // multiples of 512
  EXPECT_NO_THROW({ const memory::Recording recording(memory::Level::kTags); });
}

}  // namespace
}  // namespace muster::testing
