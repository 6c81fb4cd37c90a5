// Batches, numbers and counters on their way to a real device and back.
#include <chrono>
#include <memory>
#include <thread>

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "muster/data/loader/device_batches.h"
#include "muster/data/samplers/random.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/memory/allocator/counters.h"
#include "muster/tensor/device/copy_stream.h"
#include "muster/tensor/device/device_memory.h"
#include "muster/tensor/device/device_spans.h"
#include "muster/tensor/device/generators.h"
#include "muster/tensor/device/host_copy.h"
#include "muster/tensor/device/pinned_ring.h"
#include "muster/tensor/device/streams.h"

#include "tests/gpu/gpu.h"

namespace muster {
namespace {

using data::Batch;
using data::DeviceBatches;
using data::Loader;
using test::kGpu;
using test::OnGpu;

constexpr int64_t kSamples = 103, kBatch = 8;

c10::impl::VirtualGuardImpl gpu_guard() { return c10::impl::VirtualGuardImpl(c10::kCUDA); }

/// Keeps the device busy on the current stream for some milliseconds.
void keep_busy() {
  const at::Tensor a = torch::randn({4096, 4096}, kGpu);
  for (int i = 0; i < 40; ++i) a.mm(a);
}

std::shared_ptr<const data::Dataset> rows_of_images() {
  const at::Generator generator = at::detail::createCPUGenerator(5);
  return std::make_shared<data::TensorDataset>(
      torch::randn({kSamples, 3, 64, 64}, generator), torch::arange(kSamples), 0, "rows");
}

Loader loader_of(const std::shared_ptr<const data::Dataset>& dataset, c10::Device device) {
  return Loader(
      dataset,
      {.batch_size = kBatch, .workers = 2, .device = device},
      std::make_unique<data::RandomSampler>(kSamples, data::RandomSamplerOptions{.seed = 3}));
}

using BatchesOnGpu = OnGpu;

TEST_F(BatchesOnGpu, ArriveBitForBitThoughTheDeviceIsBehind) {
  const auto dataset = rows_of_images();
  std::vector<Batch> expected;
  Loader plain = loader_of(dataset, c10::kCPU);
  for (Batch& batch : plain.epoch(1)) expected.push_back(std::move(batch));
  Loader loader = loader_of(dataset, kGpu);
  DeviceBatches batches(kGpu);
  for (int turn = 0; turn < 3; ++turn) {
    batches.begin(loader.epoch(1));
    std::vector<at::Tensor> kept;
    while (const auto arrived = batches.next()) {
      keep_busy();
      EXPECT_TRUE(arrived->on_host().tensors[0].second.is_pinned());
      kept.push_back(arrived->batch.tensors[0].second + 0);  // on the stream that is behind
    }
    ASSERT_EQ(kept.size(), expected.size());
    for (size_t i = 0; i < kept.size(); ++i)
      EXPECT_TRUE(torch::equal(kept[i].cpu(), expected[i].tensors[0].second)) << i;
  }
}

TEST_F(BatchesOnGpu, TheTraceHasCopiesBesideTheComputationBefore) {
  tensor::DeviceSpans spans(kGpu, [] {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  });
  Loader loader = loader_of(rows_of_images(), kGpu);
  DeviceBatches batches(kGpu);
  size_t step = 0;
  int number = 0;
  batches.trace(&spans, [&] { step = spans.begin("compute", "step " + std::to_string(number++)); });
  batches.begin(loader.epoch(1));
  while (batches.next()) {
    keep_busy();
    spans.end(step);
  }
  std::vector<tensor::DeviceSpans::Span> copies, steps;
  for (auto& span : spans.collect())
    (span.row.starts_with("copies") ? copies : steps).push_back(span);
  ASSERT_EQ(copies.size(), steps.size());
  size_t beside = 0;
  for (size_t i = 0; i + 1 < steps.size(); ++i) beside += copies[i + 1].begin_ns < steps[i].end_ns;
  EXPECT_GT(beside, steps.size() / 2) << "of " << steps.size() << " steps";
}

TEST_F(BatchesOnGpu, GoThroughARingOfPinnedMemory) {
  tensor::PinnedRing ring(kGpu);
  std::vector<at::Tensor> there, here;
  for (int i = 0; i < 12; ++i) {  // more than the ring has slots
    keep_busy();
    here.push_back(torch::randn({1 << 20}));
    there.push_back(ring.copy(here.back()));
    EXPECT_EQ(there.back().device(), kGpu);
  }
  for (size_t i = 0; i < here.size(); ++i) EXPECT_TRUE(torch::equal(there[i].cpu(), here[i])) << i;
}

TEST_F(BatchesOnGpu, AHostCopyWaitsForWhatWasQueuedBeforeIt) {
  keep_busy();
  const at::Tensor there = torch::arange(1 << 16, at::TensorOptions(kGpu)) * 3;
  tensor::HostCopy copy(there);
  EXPECT_TRUE(torch::equal(copy.wait(), torch::arange(1 << 16) * 3));
}

TEST_F(BatchesOnGpu, AMarkOrdersStreamsOfTwoThreads) {
  at::Tensor made;
  tensor::StreamMark mark;
  std::thread([&] {
    const c10::StreamGuard side(gpu_guard().getStreamFromGlobalPool(kGpu));
    keep_busy();
    made = torch::full({1 << 20}, 7.0F, kGpu);
    mark = tensor::StreamMark::of_current({kGpu});
  }).join();
  mark.wait_on_current();
  EXPECT_TRUE(torch::equal((made + 1).cpu(), torch::full({1 << 20}, 8.0F)));
}

TEST_F(BatchesOnGpu, CountersAreThoseOfTheAllocator) {
  const memory::Counters before = memory::device_counters(kGpu);
  const uint64_t room = tensor::free_bytes_of(kGpu);
  const at::Tensor held = torch::empty({64 << 20}, at::TensorOptions(kGpu).dtype(at::kByte));
  const memory::Counters with = memory::device_counters(kGpu);
  EXPECT_EQ(with.current - before.current, 64 << 20);
  EXPECT_EQ(*with.requested - *before.requested, 64 << 20);
  EXPECT_EQ(with.allocations - before.allocations, 1);
  EXPECT_NEAR(static_cast<double>(room) - static_cast<double>(tensor::free_bytes_of(kGpu)),
              64 << 20,
              8 << 20);
  memory::reset_device_peak(kGpu);
  { const at::Tensor more = torch::empty({32 << 20}, held.options()); }
  EXPECT_EQ(memory::device_counters(kGpu).peak, with.current + (32 << 20));
  const int64_t pinned = memory::pinned_counters(c10::kCUDA).current;
  const at::Tensor host = torch::empty({5 << 20}, at::TensorOptions(at::kByte).pinned_memory(true));
  EXPECT_GE(memory::pinned_counters(c10::kCUDA).current - pinned, 5 << 20);
}

TEST_F(BatchesOnGpu, AGeneratorGoesBackToWhereItWas) {
  at::Generator own = tensor::new_generator(kGpu);
  own.set_current_seed(9);
  const auto draw = [&] { return at::rand({100}, own, at::TensorOptions(kGpu)).cpu(); };
  draw();
  at::Tensor first;
  {
    const tensor::GeneratorAsItWas as_it_was(own);
    first = draw();
  }
  EXPECT_TRUE(torch::equal(draw(), first));
  EXPECT_FALSE(torch::equal(draw(), first));
}

}  // namespace
}  // namespace muster
