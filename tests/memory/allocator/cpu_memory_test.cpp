// The recorded CPU memory: what it counts, what it refuses, and that blocks outlive recordings.
#include "muster/memory/allocator/cpu_memory.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <c10/util/ThreadLocalDebugInfo.h>

#include "muster/base/text.h"
#include "muster/memory/allocator/scope.h"

#include "tests/support/error_of.h"

namespace muster::memory {
namespace {

constexpr int64_t kKib = 1024;

at::Tensor bytes_of(int64_t bytes) { return torch::empty({bytes}, torch::kByte); }

/// The live block of exactly so many bytes: sizes in these tests are odd ones.
std::optional<LiveBlock> block_of_size(int64_t bytes) {
  for (const LiveBlock& block : live_blocks()) {
    if (block.bytes == bytes) return block;
  }
  return std::nullopt;
}

TEST(CpuMemory, CountsBytesBlocksAndPeak) {
  const Recording recording(Level::kCounters);
  reset_cpu_peak();
  const Counters start = cpu_counters();
  at::Tensor a = bytes_of(300 * kKib), b = bytes_of(200 * kKib);
  EXPECT_EQ(cpu_counters().current - start.current, 500 * kKib);
  EXPECT_EQ(cpu_counters().requested, cpu_counters().current);
  a = at::Tensor();
  at::Tensor c = bytes_of(100 * kKib);
  EXPECT_EQ(cpu_counters().current - start.current, 300 * kKib);
  EXPECT_EQ(cpu_counters().peak - start.current, 500 * kKib);
  EXPECT_EQ(cpu_counters().allocations - start.allocations, 3);
  reset_cpu_peak();
  EXPECT_EQ(cpu_counters().peak, cpu_counters().current);
}

/// What LibTorch's profilers of memory hear on this thread while it lives.
class HeardMemory final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(
      void*, int64_t bytes, size_t allocated, size_t, c10::Device device) override {
    if (device.is_cpu()) heard.push_back(bytes);
    total = static_cast<int64_t>(allocated);
  }
  void reportOutOfMemory(int64_t bytes, size_t, size_t, c10::Device) override {
    refused.push_back(bytes);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::vector<int64_t> heard, refused;
  int64_t total = 0;
};

TEST(CpuMemory, ProfilersHearOfRecordedBlocksAsOfOthers) {
  const Recording recording(Level::kCounters);
  const at::Tensor before = bytes_of(1000);
  const auto heard = std::make_shared<HeardMemory>();
  std::vector<int64_t> at_end;
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, heard);
    at::Tensor inside = bytes_of(2000);
    ASSERT_EQ(heard->heard.size(), 1U);
    EXPECT_GE(heard->heard[0], 2000);
    const int64_t others = heard->total - heard->heard[0];
    inside = at::Tensor();
    ASSERT_EQ(heard->heard.size(), 2U);
    EXPECT_EQ(heard->heard[1], -heard->heard[0]);
    EXPECT_EQ(heard->total, others);
    EXPECT_THROW(bytes_of(int64_t{1} << 60), c10::OutOfMemoryError);
    ASSERT_EQ(heard->refused.size(), 1U);
    EXPECT_GE(heard->refused[0], int64_t{1} << 60);
    at_end = heard->heard;
  }
  bytes_of(3000);
  EXPECT_EQ(heard->heard, at_end);
}

TEST(CpuMemory, AnEmptyTensorIsNoBlock) {
  const Recording recording(Level::kTags);
  const Counters start = cpu_counters();
  const at::Tensor empty = torch::empty({0});
  EXPECT_EQ(cpu_counters().allocations, start.allocations);
  EXPECT_EQ(cpu_counters().current, start.current);
}

TEST(CpuMemory, DataStartsAtAMultipleOf64) {
  const Recording recording(Level::kTags);
  for (int64_t bytes = 1; bytes < 5000; bytes = bytes * 2 + 1)
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes_of(bytes).data_ptr()) % 64, 0U) << bytes;
}

TEST(CpuMemory, BlocksOutliveTheirRecordingAndThoseOfBeforeAreNotCounted) {
  at::Tensor before = bytes_of(1001), inside;
  int64_t start = 0;
  {
    const Recording recording(Level::kTags);
    start = cpu_counters().current;
    inside = bytes_of(1003);
    before = at::Tensor();  // freed by whoever made it, not charged
    EXPECT_EQ(cpu_counters().current - start, 1003);
  }
  at::Tensor after = bytes_of(1005);  // no recording: not counted
  EXPECT_EQ(cpu_counters().current - start, 1003);
  inside.fill_(7);
  EXPECT_EQ(inside.sum().item<int64_t>(), 7 * 1003);
  inside = at::Tensor();
  EXPECT_EQ(cpu_counters().current, start);
  after = at::Tensor();
  EXPECT_EQ(cpu_counters().current, start);
}

TEST(CpuMemory, ResizedAndMovedStoragesStayCounted) {
  const Recording recording(Level::kTags);
  const int64_t start = cpu_counters().current;
  at::Tensor t = bytes_of(1000);
  t.resize_({5000});
  EXPECT_EQ(cpu_counters().current - start, 5000);
  at::Tensor other = std::move(t);
  EXPECT_EQ(cpu_counters().current - start, 5000);
  other.reset();
  EXPECT_EQ(cpu_counters().current, start);
}

TEST(CpuMemory, TellsScopeOperatorIterationAndThreadOfALiveBlock) {
  const Recording recording(Level::kTags);
  set_memory_iteration(17);
  at::Tensor made;
  {
    const Scope outer("encoder");
    const Scope inner("mask");
    EXPECT_EQ(Scope::current(), "encoder/mask");
    made = torch::ones({12347}, torch::kByte);
  }
  EXPECT_EQ(Scope::current(), "");
  const auto block = block_of_size(12347);
  ASSERT_TRUE(block.has_value());
  EXPECT_EQ(block->scope, "encoder/mask");
  EXPECT_EQ(block->op, "aten::ones");
  EXPECT_EQ(block->iteration, 17U);
  EXPECT_EQ(block->owner, Owner::kOther);
  made = at::Tensor();
  EXPECT_FALSE(block_of_size(12347).has_value());
}

TEST(CpuMemory, ABackwardsBlocksBelongToTheScopeOfTheirForward) {
  const Recording recording(Level::kTags);
  at::Tensor weight = torch::ones({5003}, torch::requires_grad()), loss;
  {
    const Scope scope("decoder");
    loss = (weight * 2).sum();
  }
  {
    const Scope scope("elsewhere");
    loss.backward();
  }
  ASSERT_TRUE(weight.grad().defined());
  std::vector<std::string> scopes;
  for (const LiveBlock& block : live_blocks()) {
    if (block.bytes == 5003 * 4 && block.owner == Owner::kGradient) scopes.push_back(block.scope);
  }
  EXPECT_EQ(scopes, std::vector<std::string>{"decoder"});
}

TEST(CpuMemory, AnAllocationBeyondTheCapacityThrowsAndChargesNothing) {
  const Recording recording(Level::kCounters);
  const Counters start = cpu_counters();
  const int64_t refused = refused_cpu_allocations();
  set_cpu_capacity(start.current + 100 * kKib);
  const at::Tensor fits = bytes_of(60 * kKib);
  std::string text;
  try {
    bytes_of(41 * kKib);
  } catch (const c10::OutOfMemoryError& error) {
    text = error.what_without_backtrace();
  }
  EXPECT_NE(text.find("CPU out of memory. Tried to allocate 41 KiB (41984 bytes)"), text.npos)
      << text;
  EXPECT_EQ(cpu_counters().current, start.current + 60 * kKib);
  EXPECT_EQ(refused_cpu_allocations(), refused + 1);
  const at::Tensor exactly = bytes_of(40 * kKib);
  set_cpu_capacity(0);
  const at::Tensor again = bytes_of(41 * kKib);
}

TEST(CpuMemory, AnAbsurdSizeThrowsTheTypedErrorAndChargesNothing) {
  for (const Level level : {Level::kCounters, Level::kTags}) {
    const Recording recording(level);
    const at::Tensor held = bytes_of(70 * kKib);
    const Counters start = cpu_counters();
    try {
      bytes_of(int64_t{1} << 60);
      ADD_FAILURE() << "no error";
    } catch (const c10::OutOfMemoryError& error) {
      const std::string text = error.what_without_backtrace();
      EXPECT_NE(text.find(concat("(", start.current, " bytes) is allocated by tensors")), text.npos)
          << text;
    }
    EXPECT_EQ(cpu_counters().current, start.current);
    EXPECT_EQ(cpu_counters().allocations, start.allocations);
  }
}

TEST(CpuMemory, SharesOfAPeakEndWithTheRecordingThatSawThem) {
  {
    const Recording recording(Level::kTags);
    const at::Tensor large = bytes_of(900 * kKib);
    EXPECT_GE(cpu_owner_bytes_at_peak()[static_cast<size_t>(Owner::kOther)], 900 * kKib);
  }
  const Recording counting(Level::kCounters);
  reset_cpu_peak();
  const Recording recording(Level::kTags);
  const OwnerBytes now = cpu_owner_bytes();
  EXPECT_EQ(cpu_owner_bytes_at_peak(), now);
}

TEST(CpuMemory, TheNthAllocationFailsAloneOrWithAllBehindIt) {
  const Recording recording(Level::kCounters);
  fail_cpu_allocation(3);
  const at::Tensor first = bytes_of(10), second = bytes_of(10);
  EXPECT_THROW(bytes_of(10), c10::OutOfMemoryError);
  EXPECT_NO_THROW(bytes_of(10));

  fail_cpu_allocation(2, /*all_after=*/true);
  EXPECT_NO_THROW(bytes_of(10));
  EXPECT_THROW(bytes_of(10), c10::OutOfMemoryError);
  EXPECT_THROW(bytes_of(10), c10::OutOfMemoryError);
  fail_cpu_allocation(0);
  EXPECT_NO_THROW(bytes_of(10));
}

TEST(CpuMemory, AMarkedThreadsAllocationsFailAlone) {
  const Recording recording(Level::kCounters);
  fail_cpu_allocation(2, /*all_after=*/true, FailingThreads::kMarked);
  int failed = 0;
  std::thread marked([&failed] {
    const FailingThread failing;
    for (int i = 0; i < 4; ++i) {
      try {
        bytes_of(10);
      } catch (const c10::OutOfMemoryError&) {
        ++failed;
      }
    }
  });
  for (int i = 0; i < 10; ++i) EXPECT_NO_THROW(bytes_of(10));
  marked.join();
  EXPECT_EQ(failed, 3);
  fail_cpu_allocation(0);
}

TEST(CpuMemory, EveryAllocationOfAStepCanFailAndNoneIsLostOrChargedTwice) {
  const Recording recording(Level::kTags);
  const at::Tensor weight = torch::randn({64, 64}, torch::requires_grad());
  const at::Tensor batch = torch::randn({32, 64});
  const auto step = [&] {
    weight.mutable_grad() = at::Tensor();
    torch::nn::functional::gelu(batch.matmul(weight)).square().sum().backward();
  };
  step();
  const int64_t before = cpu_counters().allocations;
  step();
  const int64_t allocations = cpu_counters().allocations - before;
  ASSERT_GT(allocations, 5);
  weight.mutable_grad() = at::Tensor();
  const int64_t live = cpu_counters().current;
  for (int64_t nth = 1; nth <= allocations; ++nth) {
    fail_cpu_allocation(nth);
    EXPECT_THROW(step(), c10::OutOfMemoryError) << nth;
    weight.mutable_grad() = at::Tensor();
    EXPECT_EQ(cpu_counters().current, live) << nth;
  }
  fail_cpu_allocation(0);
  step();
}

TEST(CpuMemory, ThreadsThatAllocateAndFreeEachOthersBlocksLeaveNothingBehind) {
  const Recording recording(Level::kTags);
  const Counters start = cpu_counters();
  const size_t blocks = live_blocks().size();
  constexpr int kThreads = 4, kEach = 200;
  std::vector<std::vector<at::Tensor>> made(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < kEach; ++k) made[static_cast<size_t>(i)].push_back(bytes_of(100 + k));
    });
  }
  for (std::thread& thread : threads) thread.join();
  constexpr int64_t kBytesEach = kEach * 100 + kEach * (kEach - 1) / 2;
  EXPECT_EQ(cpu_counters().current - start.current, kThreads * kBytesEach);
  EXPECT_EQ(cpu_counters().allocations - start.allocations, kThreads * kEach);
  EXPECT_EQ(live_blocks().size() - blocks, static_cast<size_t>(kThreads * kEach));
  threads.clear();
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] { made[static_cast<size_t>((i + 1) % kThreads)].clear(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cpu_counters().current, start.current);
  EXPECT_EQ(live_blocks().size(), blocks);
}

TEST(CpuMemory, WrongNumbersAreRefusedByName) {
  EXPECT_EQ(test::muster_error_of([] { set_cpu_capacity(-1); }).kind(), ErrorKind::kUsage);
  EXPECT_EQ(test::muster_error_of([] { fail_cpu_allocation(-1); }).kind(), ErrorKind::kUsage);
  EXPECT_EQ(test::muster_error_of([] { const Scope scope(""); }).kind(), ErrorKind::kUsage);
  EXPECT_EQ(test::muster_error_of([] { const Scope scope("replay", GrowsTo{0}); }).kind(),
            ErrorKind::kUsage);
  EXPECT_EQ(test::muster_error_of([] { device_counters(c10::Device("cpu")); }).kind(),
            ErrorKind::kEnvironment);
}

TEST(CpuMemory, ConvolutionsOfOneDnnWorkInFrontOfBlocksOfBefore) {
  torch::nn::Conv2d layer(torch::nn::Conv2dOptions(8, 16, 3));
  const at::Tensor batch = torch::randn({4, 8, 16, 16});
  const torch::NoGradGuard no_grad;
  const at::Tensor plain = layer->forward(batch);
  const Recording recording(Level::kTags);
  EXPECT_TRUE(layer->forward(batch).equal(plain));
}

}  // namespace
}  // namespace muster::memory
