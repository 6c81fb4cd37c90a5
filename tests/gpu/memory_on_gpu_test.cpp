// Memory that really runs out: what the errors of CUDA's allocator say, and steps that are made again.
#include <algorithm>

#include <ATen/DeviceAccelerator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <gmock/gmock.h>

#include "muster/memory/allocator/counters.h"
#include "muster/memory/batch/batch_finder.h"
#include "muster/memory/guard/guard.h"
#include "muster/memory/guard/oom.h"
#include "muster/memory/report/explain.h"
#include "muster/memory/report/watch.h"
#include "muster/tensor/device/device_memory.h"

#include "tests/gpu/gpu.h"
#include "tests/support/thrown_by.h"

namespace muster::memory {
namespace {

using test::kGpu;
using test::OnGpu;
using ::testing::HasSubstr;

constexpr int64_t kMib = int64_t{1} << 20, kGib = int64_t{1} << 30;

at::Tensor bytes_of(int64_t bytes) {
  return torch::empty({bytes}, at::TensorOptions(kGpu).dtype(at::kByte));
}

class MemoryOnGpu : public OnGpu {
 protected:
  void TearDown() override {
    if (!IsSkipped()) at::accelerator::emptyCache();
  }

  /// Takes the device but for `bytes`, or a little less, in pieces.
  static std::vector<at::Tensor> all_but(int64_t bytes) {
    at::accelerator::emptyCache();
    std::vector<at::Tensor> pieces;
    for (int64_t piece = kGib; piece >= 16 * kMib; piece /= 2) {
      while (static_cast<int64_t>(tensor::free_bytes_of(kGpu)) >= bytes + piece)
        pieces.push_back(bytes_of(piece));
    }
    return pieces;
  }
};

TEST_F(MemoryOnGpu, AnErrorOfTheAllocatorIsKnownAndExplained) {
  const auto held = all_but(512 * kMib);
  const auto error = test::thrown_by([] { bytes_of(2 * kGib); });
  ASSERT_TRUE(error);
  EXPECT_TRUE(is_oom(error));
  const OomReport report = explain(error, kGpu);
  const OomFacts& facts = report.facts;
  EXPECT_EQ(facts.device, "cuda:0");
  EXPECT_EQ(facts.asked, 2 * kGib);
  ASSERT_TRUE(facts.free && facts.total && facts.live);
  EXPECT_LE(*facts.free, 530 * kMib);
  EXPECT_GT(*facts.free, 100 * kMib);
  EXPECT_NEAR(static_cast<double>(*facts.live),
              static_cast<double>(device_counters(kGpu).current),
              1e-3 * 80 * kGib);
  EXPECT_EQ(report.cause.kind, OomClass::kLiveTensors) << report.text();
}

TEST_F(MemoryOnGpu, WhatTheModelHoldsIsTold) {
  torch::nn::Linear net(16384, 16384);  // 1 GiB, and as much of gradients
  net->to(kGpu);
  torch::optim::Adam adam(net->parameters());
  net->forward(torch::ones({1, 16384}, kGpu)).sum().backward();
  adam.step();
  const auto held = all_but(256 * kMib);
  const auto error = test::thrown_by([] { bytes_of(kGib); });
  ASSERT_TRUE(error);
  const OomReport report = explain(error, kGpu, {.owned = owned_tensors(*net, &adam)});
  const auto of = [&](Owner owner) { return report.facts.owners[static_cast<size_t>(owner)]; };
  EXPECT_NEAR(static_cast<double>(of(Owner::kParameter)), kGib, kMib);
  EXPECT_NEAR(static_cast<double>(of(Owner::kGradient)), kGib, kMib);
  EXPECT_NEAR(static_cast<double>(of(Owner::kOptimizerState)), 2 * kGib, kMib);
}

TEST_F(MemoryOnGpu, ARequestLargerThanTheDeviceIsSaidToBe) {
  const auto error = test::thrown_by([] { bytes_of(1024 * kGib); });
  ASSERT_TRUE(error);
  EXPECT_EQ(explain(error, kGpu).cause.kind, OomClass::kTooLarge);
}

// Segments of 20 MiB with a block in use in each: three quarters of them are idle, and none is 64 MiB.
TEST_F(MemoryOnGpu, FragmentsAreFound) {
  const auto held = all_but(4 * kGib);
  std::vector<at::Tensor> blocks;
  const auto full = test::thrown_by([&] {
    while (true) blocks.push_back(bytes_of(4 * kMib));
  });
  ASSERT_TRUE(is_oom(full));
  for (size_t i = 0; i < blocks.size(); ++i)
    if (i % 4 != 0) blocks[i] = at::Tensor();
  const auto error = test::thrown_by([] { bytes_of(64 * kMib); });
  ASSERT_TRUE(error);
  const OomReport report = explain(error, kGpu);
  EXPECT_EQ(report.cause.kind, OomClass::kFragments) << report.text();
  std::puts(report.text().c_str());
}

/// A net whose activations are many times its weights.
struct WideNetImpl : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(64, 4096));
  torch::nn::Linear middle = register_module("middle", torch::nn::Linear(4096, 4096));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(4096, 8));
  at::Tensor forward(const at::Tensor& x) { return out(torch::tanh(middle(torch::tanh(in(x))))); }
};
TORCH_MODULE(WideNet);

struct Step {
  GuardedStep made;
  std::vector<at::Tensor> gradients;
};

Step guarded(WideNet& net, Guard& guard, int64_t rows) {
  const at::Generator generator = at::detail::createCPUGenerator(7);
  const at::Tensor x = torch::randn({rows, 64}, generator).to(kGpu);
  const at::Tensor y = torch::arange(rows).remainder(8).to(kGpu);
  net->zero_grad();
  Step step;
  step.made = guard.step(rows, [&](const MicroBatch& part) {
    (torch::cross_entropy_loss(net->forward(part.of(x)), part.of(y)) * part.weight).backward();
  });
  for (const at::Tensor& parameter : net->parameters())
    step.gradients.push_back(parameter.grad().cpu());
  return step;
}

TEST_F(MemoryOnGpu, AStepThatDoesNotFitIsMadeAgainToTheSameGradients) {
  torch::manual_seed(1);
  WideNet net;
  net->to(kGpu);
  constexpr int64_t kRows = 1 << 15;  // some 2 GiB of activations
  Guard roomy(*net);
  const Step whole = guarded(net, roomy, kRows);
  EXPECT_EQ(whole.made.attempts, 1);
  net->zero_grad();
  const auto held = all_but(1200 * kMib);
  std::vector<GuardEvent> events;
  GuardOptions options;
  options.heard = [&](const GuardEvent& event) { events.push_back(event); };
  Guard guard(*net, options);
  const Step split = guarded(net, guard, kRows);
  EXPECT_GT(split.made.micro_batches, 1);
  ASSERT_FALSE(events.empty());
  EXPECT_THAT(events[0].words, HasSubstr("CUDA out of memory"));
  EXPECT_LE(test::apart(split.gradients, whole.gradients), 1e-5);
  const Step next = guarded(net, guard, kRows);
  EXPECT_EQ(next.made.attempts, 1) << "the size is kept";
  EXPECT_EQ(test::apart(next.gradients, split.gradients), 0);
}

TEST_F(MemoryOnGpu, TheLargestBatchIsFoundInAFewProbes) {
  torch::manual_seed(1);
  WideNet net;
  net->to(kGpu);
  const auto held = all_but(4 * kGib);
  const auto room = static_cast<double>(tensor::free_bytes_of(kGpu));
  const auto base = static_cast<double>(device_counters(kGpu).current);
  const BatchLimits limits{.bytes = base + room, .most = 10'000'000};
  const auto measure = [&](int64_t rows) {
    reset_device_peak(kGpu);
    BatchProbe probe{.batch = rows};
    try {
      const at::Tensor x = torch::randn({rows, 64}, kGpu);
      const at::Tensor y = torch::zeros({rows}, at::TensorOptions(kGpu).dtype(at::kLong));
      net->zero_grad();
      const at::Tensor loss = torch::cross_entropy_loss(net->forward(x), y);
      probe.forward = static_cast<double>(device_counters(kGpu).current);
      loss.backward();
    } catch (const std::exception& error) {
      if (!is_oom(error)) throw;
      probe.fits = false;
      at::accelerator::emptyCache();
    }
    probe.bytes = static_cast<double>(device_counters(kGpu).peak);
    return probe;
  };
  const BatchFound found = find_batch_size(limits, measure);
  const auto failed = std::ranges::count(found.probes, false, &BatchProbe::fits);
  EXPECT_LE(std::ssize(found.probes), failed == 0 ? 5 : 8) << text_of(found, limits);
  EXPECT_TRUE(measure(found.largest).fits) << text_of(found, limits);
  EXPECT_FALSE(measure(found.largest * 5 / 4).fits) << text_of(found, limits);
}

}  // namespace
}  // namespace muster::memory
