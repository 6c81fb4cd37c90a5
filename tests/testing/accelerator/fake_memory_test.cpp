// Memory: the cap, the counters, allocations that fail.
#include <map>

#include <ATen/DeviceAccelerator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/error_of.h"
#include "tests/testing/accelerator/fake.h"

namespace muster {
namespace {

using test::error_of;
using test::kFake0;
using test::kNoError;
using test::refusal_of;
using test::same_bits;
using testing::FakeAccelerator;
using testing::FakeMemory;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

TEST(FakeMemory, IsRoundedTo512PerTensor) {
  const FakeAccelerator fake;
  const at::Tensor a = torch::empty({1}, kFake0), b = torch::empty({129}, kFake0);
  EXPECT_EQ(fake.memory(0).live, 512 + 1024);
  EXPECT_EQ(fake.memory(0).blocks, 2);
  const auto stats = at::accelerator::getDeviceStats(0);
  EXPECT_EQ(stats.requested_bytes[0].current, 4 + 129 * 4);
  EXPECT_EQ(torch::empty({0}, kFake0).numel(), 0);
  EXPECT_EQ(fake.memory(0).allocations, 2) << "nothing takes no memory";
}

TEST(FakeMemory, MoreThanTheCapIsOutOfMemoryAndNothingIsLost) {
  const FakeAccelerator fake({.bytes_per_device = 8 * kMiB});
  at::Tensor kept = torch::ones({kMiB}, kFake0);  // 4 MiB
  EXPECT_THROW(kept.mul(2).add_(kept * 3), c10::OutOfMemoryError);
  const FakeMemory memory = fake.memory(0);
  EXPECT_EQ(memory.live, 4 * kMiB);
  EXPECT_EQ(memory.peak, 8 * kMiB);
  EXPECT_EQ(memory.blocks, 1);
  EXPECT_EQ(memory.out_of_memory, 1);
  kept.mul_(2);
  EXPECT_TRUE(same_bits(kept, torch::full({kMiB}, 2.0)));
  kept = at::Tensor();
  EXPECT_EQ(fake.memory(0).live, 0);
}

TEST(FakeMemory, TheErrorSaysWhatWasAskedForAndWhatThereIs) {
  const FakeAccelerator fake({.bytes_per_device = 8 * kMiB});
  const at::Tensor kept = torch::ones({kMiB}, kFake0);
  EXPECT_THAT(error_of([&] { torch::empty({2 * kMiB}, kFake0); }),
              HasSubstr("fake out of memory. Tried to allocate 8.0 MiB. Device 0 has a total "
                        "capacity of 8.0 MiB of which 4.0 MiB is free. 4.0 MiB is allocated by "
                        "tensors, and 0 B is reserved but unallocated."));
}

// Else it would say that there was room.
TEST(FakeMemory, WhatIsAskedForIsWholeBlocks) {
  const FakeAccelerator fake({.bytes_per_device = 400});
  EXPECT_THAT(error_of([] { torch::empty({1}, kFake0); }),
              HasSubstr("Tried to allocate 512 B. Device 0 has a total capacity of 400 B of which "
                        "400 B is free."));
}

TEST(FakeMemory, WorkspacesOfKernelsCount) {
  FakeAccelerator fake;
  const auto doubles = at::TensorOptions(kFake0).dtype(at::kDouble);
  const at::Tensor image = torch::ones({1, 8, 64, 64}, doubles);
  const at::Tensor weight = torch::ones({8, 8, 3, 3}, doubles);
  const int64_t before = fake.memory(0).live;
  fake.reset_peak(0);
  const at::Tensor result = at::conv2d(image, weight);  // by im2col, in double: C k k H W columns
  const int64_t columns = 8 * 3 * 3 * 62 * 62 * 8, output = 8 * 62 * 62 * 8;
  EXPECT_GE(fake.memory(0).peak - before, columns + output);
  EXPECT_EQ(fake.memory(0).live - before, (output + 511) / 512 * 512);
}

TEST(FakeMemory, LibTorchsCountersAreTheSame) {
  FakeAccelerator fake({.bytes_per_device = 64 * kMiB});
  at::Tensor a = torch::ones({kMiB}, kFake0), b = torch::ones({2 * kMiB}, kFake0);
  b = at::Tensor();
  const auto stats = at::accelerator::getDeviceStats(0);
  EXPECT_EQ(stats.allocated_bytes[0].current, 4 * kMiB);
  EXPECT_EQ(stats.allocated_bytes[0].peak, 12 * kMiB);
  EXPECT_EQ(stats.reserved_bytes[0].current, 12 * kMiB);
  EXPECT_EQ(stats.allocation[0].current, 1);
  EXPECT_EQ(stats.allocation[0].freed, 1);
  EXPECT_THAT(at::accelerator::getMemoryInfo(0), ::testing::Pair(52 * kMiB, 64 * kMiB));
  at::accelerator::emptyCache();
  EXPECT_EQ(fake.memory(0).reserved, 4 * kMiB);
  EXPECT_EQ(at::accelerator::getMemoryInfo(0).first, 60 * kMiB);
  at::accelerator::resetPeakStats(0);
  EXPECT_EQ(fake.memory(0).peak, 4 * kMiB);
  at::accelerator::resetAccumulatedStats(0);
  EXPECT_EQ(fake.memory(0).allocations, 0);
}

TEST(FakeMemory, TheCacheGoesBeforeMemoryRunsOut) {
  FakeAccelerator fake({.bytes_per_device = 64 * kMiB});
  torch::ones({8 * kMiB}, kFake0);
  EXPECT_EQ(fake.memory(0).reserved, 32 * kMiB);
  fake.set_capacity(0, 16 * kMiB);
  const at::Tensor small = torch::ones({kMiB}, kFake0);
  EXPECT_EQ(fake.memory(0).reserved, 4 * kMiB);
  EXPECT_EQ(at::accelerator::getDeviceStats(0).num_alloc_retries, 1);
  EXPECT_THROW(torch::ones({4 * kMiB}, kFake0), c10::OutOfMemoryError);
}

TEST(FakeMemory, InPiecesThereMayBeRoomAndNoPlace) {
  const FakeAccelerator fake({.bytes_per_device = 8 * kMiB, .in_pieces = true});
  std::vector<at::Tensor> comb;
  for (int i = 0; i < 8; ++i)
    comb.push_back(torch::empty({kMiB}, at::TensorOptions(kFake0).dtype(at::kByte)));
  for (size_t i = 0; i < 8; i += 2) comb[i] = at::Tensor();
  EXPECT_EQ(fake.memory(0).live, 4 * kMiB);
  const auto two = [] { torch::empty({2 * kMiB}, at::TensorOptions(kFake0).dtype(at::kByte)); };
  EXPECT_THAT(error_of(two),
              HasSubstr("of which 0 B is free. 4.0 MiB is allocated by tensors, and 4.0 MiB is "
                        "reserved but unallocated."));
  comb[1] = at::Tensor();  // three in a row
  EXPECT_EQ(error_of(two), kNoError);
}

TEST(FakeMemory, LateFreesAreFreeOnceTheDeviceHasBeenWaitedFor) {
  FakeAccelerator fake(
      {.bytes_per_device = 8 * kMiB, .races = testing::Races::kIgnore, .late_frees = true});
  const auto options = at::TensorOptions(kFake0).dtype(at::kByte);
  torch::empty({6 * kMiB}, options).record_stream(test::fake_guard().getNewStream(kFake0));
  EXPECT_EQ(fake.memory(0).live, 0);
  const auto six = [&] { torch::empty({6 * kMiB}, options); };
  EXPECT_THAT(error_of(six), HasSubstr("6.0 MiB is reserved but unallocated."));
  EXPECT_EQ(at::accelerator::getDeviceStats(0).active_bytes[0].current, 6 * kMiB);
  test::fake_guard().synchronizeDevice(0);
  EXPECT_EQ(at::accelerator::getDeviceStats(0).active_bytes[0].current, 0);
  EXPECT_EQ(error_of(six), kNoError);
}

TEST(FakeMemory, DevicesHaveTheirOwn) {
  FakeAccelerator fake({.devices = 2, .bytes_per_device = 8 * kMiB});
  fake.set_capacity(1, 2 * kMiB);
  EXPECT_THROW(torch::empty({kMiB}, test::kFake1), c10::OutOfMemoryError);
  const at::Tensor other = torch::empty({kMiB}, kFake0);
  EXPECT_EQ(fake.memory(1).live, 0);
  EXPECT_EQ(fake.memory(0).out_of_memory, 0);
}

TEST(FakeMemory, TheNthAllocationFailsAndTheOthersDoNot) {
  FakeAccelerator fake;
  fake.fail_allocation(0, 2);
  const auto takes = [] { return error_of([] { torch::empty({1}, kFake0); }); };
  EXPECT_EQ(takes(), kNoError);
  EXPECT_THAT(takes(), HasSubstr("this allocation was to fail"));
  EXPECT_EQ(takes(), kNoError);
  fake.fail_allocation(0, 1, true);
  EXPECT_NE(takes(), kNoError);
  EXPECT_NE(takes(), kNoError);
  fake.fail_allocation(0, 0);
  EXPECT_EQ(takes(), kNoError);
  EXPECT_EQ(refusal_of([&] { fake.fail_allocation(0, -1); }),
            "failure of an allocation: they are counted from 1; 0 takes a failure back (got -1)");
}

/// A small training step, each part of which takes memory.
struct Step {
  torch::nn::Sequential net{torch::nn::Conv2d(3, 8, 3),
                            torch::nn::ReLU(),
                            torch::nn::Flatten(),
                            torch::nn::Linear(8 * 36, 10)};
  at::Tensor image, label;
  std::unique_ptr<torch::optim::SGD> sgd;
  std::string part;

  Step() {
    net->to(kFake0);
    image = torch::randn({4, 3, 8, 8}, kFake0);
    label = torch::zeros({4}, at::TensorOptions(kFake0).dtype(at::kLong));
    sgd = std::make_unique<torch::optim::SGD>(
        net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-4));
  }
  void run() {
    sgd->zero_grad();
    part = "forward";
    const at::Tensor loss = torch::cross_entropy_loss(net->forward(image), label);
    part = "backward";
    loss.backward();
    part = "optimizer";
    sgd->step();
    part = "none";
  }
};

TEST(FakeMemory, EachAllocationOfAStepMayFailAndNothingLeaks) {
  FakeAccelerator fake;
  Step step;
  step.run();
  step.sgd->zero_grad();
  const int64_t base = fake.memory(0).live, first = fake.memory(0).allocations;
  step.run();
  const int64_t count = fake.memory(0).allocations - first;
  ASSERT_GT(count, 10);
  std::map<std::string, int> fell;
  for (int64_t n = 1; n <= count; ++n) {
    fake.fail_allocation(0, n);
    EXPECT_THROW(step.run(), c10::OutOfMemoryError) << n;
    fake.fail_allocation(0, 0);
    ++fell[step.part];
    step.sgd->zero_grad();
    EXPECT_EQ(fake.memory(0).live, base) << n;
  }
  EXPECT_GT(fell["forward"], 0);
  EXPECT_GT(fell["backward"], 0);
  EXPECT_GT(fell["optimizer"], 0);
  EXPECT_EQ(fell["none"], 0);
}

TEST(FakeMemory, PoisonedMemoryIsNanUntilItIsWritten) {
  const FakeAccelerator fake({.poison = true});
  torch::ones({100}, kFake0);
  EXPECT_TRUE(torch::empty({100}, kFake0).isnan().all().item<bool>());
}

TEST(FakeMemory, ThreadsMayAllocateAtOnce) {
  const FakeAccelerator fake({.devices = 2});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      const c10::Device device = FakeAccelerator::device(t % 2);
      at::Tensor sum = torch::zeros({100}, device);
      for (int i = 0; i < 200; ++i) sum += torch::ones({100}, device);
      EXPECT_TRUE(same_bits(sum, torch::full({100}, 200.0)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake.memory(0).live, 0);
  EXPECT_EQ(fake.memory(1).live, 0);
}

}  // namespace
}  // namespace muster
