// Program 22 of suite A on a fake accelerator: blocks that are freed while a side stream may still use them pile up.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/memory/allocator/counters.h"
#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/leak/leak_finder.h"
#include "muster/testing/accelerator/fake_accelerator.h"

#include "tests/testing/accelerator/fake.h"

namespace muster::memory {
namespace {

using test::kFake0;
using ::testing::HasSubstr;

constexpr int64_t kBlockBytes = 256 << 10;

/// A batch that a side stream uses, and that the loop then drops.
void drop_a_batch_in_use(const c10::Stream& side) {
  const at::Tensor batch = torch::empty({kBlockBytes}, at::TensorOptions(kFake0).dtype(at::kByte));
  batch.record_stream(side);
}

struct WaitingRun {
  int first_iteration = 0;  ///< with a finding of waiting blocks; 0: none
  LeakFinding finding;
};

/// Forty iterations; after each of them `settle`, which may wait for the device.
WaitingRun run_with(const std::function<void(int iteration)>& settle) {
  const Recording before_the_fake(Level::kCounters);
  const testing::FakeAccelerator fake({.races = testing::Races::kIgnore, .late_frees = true});
  const c10::Stream side = test::fake_guard().getNewStream(kFake0);
  torch::nn::Linear net(8, 4);
  net->to(kFake0);
  test::fake_guard().synchronizeDevice(0);
  Tracker tracker(*net);
  const LeakFinder finder(tracker);
  WaitingRun run;
  for (int i = 1; i <= 40; ++i) {
    drop_a_batch_in_use(side);
    settle(i);
    tracker.end_iteration();
    for (const LeakFinding& finding : finder.report().findings) {
      if (finding.kind != LeakKind::kWaiting || run.first_iteration != 0) continue;
      run.first_iteration = i;
      run.finding = finding;
    }
  }
  return run;
}

TEST(WaitingFrees, ThatPileUpAreALeak) {
  const WaitingRun run = run_with([](int) {});
  EXPECT_GT(run.first_iteration, 0);
  EXPECT_LE(run.first_iteration, 30);
  EXPECT_EQ(run.finding.bytes_per_iteration, kBlockBytes);
  EXPECT_THAT(run.finding.text(), HasSubstr("leak: +256 KiB/iteration, held by streams that"));
  EXPECT_THAT(run.finding.text(), HasSubstr("record_stream()"));
}

TEST(WaitingFrees, OfAStreamThatIsWaitedForAreSilent) {
  EXPECT_EQ(run_with([](int) { test::fake_guard().synchronizeDevice(0); }).first_iteration, 0);
}

// A sawtooth, which rises in three of four steps.
TEST(WaitingFrees, OfAStreamThatIsWaitedForNowAndThenAreSilent) {
  EXPECT_EQ(run_with([](int iteration) {
              if (iteration % 4 == 0) test::fake_guard().synchronizeDevice(0);
            }).first_iteration,
            0);
}

TEST(WaitingFrees, AreCountedBesideWhatIsLive) {
  const Recording before_the_fake(Level::kCounters);
  const testing::FakeAccelerator fake({.races = testing::Races::kIgnore, .late_frees = true});
  const c10::Stream side = test::fake_guard().getNewStream(kFake0);
  const int64_t live = device_counters(kFake0).current;
  EXPECT_EQ(waiting_bytes(kFake0), 0);
  drop_a_batch_in_use(side);
  EXPECT_EQ(waiting_bytes(kFake0), kBlockBytes);
  EXPECT_EQ(device_counters(kFake0).current, live);
  test::fake_guard().synchronizeDevice(0);
  EXPECT_EQ(waiting_bytes(kFake0), 0);
  EXPECT_ANY_THROW(waiting_bytes(c10::Device(c10::kCPU)));
}

}  // namespace
}  // namespace muster::memory
