// A loader's batches on their way to a device: what is queued when, and that nobody reads too early.
#include <algorithm>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/loader/device_batches.h"
#include "muster/data/samplers/random.h"
#include "muster/data/sets/image_dataset.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/data/transform/transformed.h"
#include "muster/tensor/device/device_spans.h"

#include "tests/support/error_of.h"
#include "tests/testing/accelerator/fake.h"

namespace muster {
namespace {

using data::Batch;
using data::DeviceBatches;
using data::Loader;
using data::LoaderOptions;
using test::error_of;
using test::fake_guard;
using test::kFake0;
using test::same_bits;
using ::testing::ElementsAre;
using testing::FakeAccelerator;
using testing::FakeRace;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Races;

constexpr int64_t kSamples = 22, kBatch = 4;

/// Tokens whose length differs from batch to batch, a mask of another dtype, and a column that a
/// user's dataset made in memory of its own; sample `broken` cannot be read.
class Ragged final : public data::Dataset {
 public:
  explicit Ragged(int64_t broken = -1) : broken_(broken) {}
  int64_t size() const override { return kSamples; }
  data::DataSpec spec() const override { return {.name = "ragged", .sample_shape = {}}; }
  bool is_by_sample() const override { return true; }  // whose lists have no row for each

 private:
  Batch load(std::span<const int64_t> indices, const data::SampleContext&) const override {
    const auto rows = static_cast<int64_t>(indices.size());
    const int64_t longest = *std::max_element(indices.begin(), indices.end()) % 7 + 1;
    const at::Tensor own = torch::tensor(std::vector<int64_t>(indices.begin(), indices.end()));
    if ((own == broken_).any().item<bool>()) throw std::runtime_error("cannot be read");
    const at::Tensor tokens = own.unsqueeze(1) * 100 + torch::arange(longest);
    return {.tensors = {{"tokens", tokens},
                        {"mask", tokens % 3 == 0},
                        {"weight", tokens.to(at::kDouble).t()},
                        {"none", torch::empty({rows, 0})}},
            .indices = {indices.begin(), indices.end()}};
  }

  int64_t broken_;
};

Loader loader_of(std::shared_ptr<const data::Dataset> dataset,
                 c10::Device device,
                 int64_t workers) {
  const int64_t size = dataset->size();
  return Loader(std::move(dataset),
                {.batch_size = kBatch, .workers = workers, .device = device},
                std::make_unique<data::RandomSampler>(size, data::RandomSamplerOptions{.seed = 3}));
}

std::vector<Batch> batches_of(const std::shared_ptr<const data::Dataset>& dataset) {
  Loader loader = loader_of(dataset, c10::kCPU, 0);
  std::vector<Batch> all;
  for (Batch& batch : loader.epoch(1)) all.push_back(std::move(batch));
  return all;
}

/// What a step does with a batch: it reads each tensor on the stream that computes.
std::vector<at::Tensor> computed(const Batch& batch) {
  std::vector<at::Tensor> results;
  for (const auto& [name, tensor] : batch.tensors) results.push_back(tensor + tensor);
  return results;
}

void expect_same(const Batch& made, const Batch& expected) {
  EXPECT_EQ(made.indices, expected.indices);
  ASSERT_EQ(made.tensors.size(), expected.tensors.size());
  for (size_t i = 0; i < made.tensors.size(); ++i) {
    EXPECT_EQ(made.tensors[i].first, expected.tensors[i].first);
    EXPECT_TRUE(same_bits(made.tensors[i].second, expected.tensors[i].second));
  }
}

// Memory is NaN when it is taken and when it is freed, and a missing wait throws.
TEST(DeviceBatches, BringRaggedBatchesOfAnyTensorsBitForBit) {
  const FakeAccelerator fake({.poison = true});
  const auto dataset = std::make_shared<Ragged>();
  const std::vector<Batch> expected = batches_of(dataset);
  for (const int64_t workers : {0, 2}) {
    Loader loader = loader_of(dataset, kFake0, workers);
    DeviceBatches batches(kFake0);
    for (int turn = 0; turn < 3; ++turn) {
      batches.begin(loader.epoch(1));
      EXPECT_EQ(batches.batches(), 6);
      size_t count = 0;
      while (const auto arrived = batches.next()) {
        for (const auto& [name, tensor] : arrived->batch.tensors)
          EXPECT_EQ(tensor.device(), kFake0) << name;
        const std::vector<at::Tensor> twice = computed(arrived->batch);
        ASSERT_LT(count, expected.size());
        for (size_t i = 0; i < twice.size(); ++i)
          EXPECT_TRUE(same_bits(twice[i], computed(expected[count])[i]));
        expect_same(arrived->batch, expected[count]);
        expect_same(arrived->on_host(), expected[count]);
        ++count;
      }
      EXPECT_EQ(count, expected.size());
      EXPECT_FALSE(batches.next());
    }
  }
}

TEST(DeviceBatches, AreMadeInPinnedMemorySoThatNoCopyWaits) {
  const FakeAccelerator fake;
  const auto tensors = std::make_shared<data::TensorDataset>(
      torch::randn({kSamples, 3}), torch::arange(kSamples), 0, "rows");
  for (const std::shared_ptr<const data::Dataset>& dataset :
       {std::shared_ptr<const data::Dataset>(tensors),
        std::shared_ptr<const data::Dataset>(std::make_shared<Ragged>())}) {
    Loader loader = loader_of(dataset, kFake0, 2);
    DeviceBatches batches(kFake0);
    batches.begin(loader.epoch(1));
    const auto arrived = batches.next();
    for (const auto& [name, tensor] : arrived->on_host().tensors)
      EXPECT_TRUE(tensor.is_pinned()) << name;
  }
}

TEST(DeviceBatches, OfNormalisedImagesHaveTheNumbersOfTheHostsAndArePinned) {
  const FakeAccelerator fake({.poison = true});
  const auto images =
      std::make_shared<data::ImageDataset>(data::DataSpec{.name = "images",
                                                          .sample_shape = {3, 8, 8},
                                                          .classes = kSamples,
                                                          .mean = {0.5, 0.4, 0.3},
                                                          .standard_deviation = {0.2, 0.3, 0.4}},
                                           torch::randint(256, {kSamples, 3, 8, 8}, torch::kByte),
                                           torch::arange(kSamples));
  for (const auto& dataset : {std::shared_ptr<const data::Dataset>(images),
                              data::transformed(images, "center_crop:size=4")}) {
    const std::vector<Batch> expected = batches_of(dataset);
    Loader loader = loader_of(dataset, kFake0, 2);
    DeviceBatches batches(kFake0);
    batches.begin(loader.epoch(1));
    size_t count = 0;
    while (const auto arrived = batches.next()) {
      ASSERT_LT(count, expected.size());
      expect_same(arrived->on_host(), expected[count++]);
      for (const auto& [name, tensor] : arrived->on_host().tensors)
        EXPECT_TRUE(tensor.is_pinned()) << name;
    }
    EXPECT_EQ(count, expected.size());
  }
}

// The event behind the copies is what makes the stream that computes wait. Without it (the copies'
// tensors are taken as they are) the race is found: the test above would fail.
TEST(DeviceBatches, WithoutTheWaitThereIsARace) {
  FakeAccelerator fake({.races = Races::kCollect});
  tensor::CopyStream copies(kFake0);
  const at::Tensor host = torch::randn({64}).pin_memory();
  tensor::CopyStream::Copies on_their_way = copies.begin({host});
  on_their_way.tensors[0] * 2;
  const auto races = fake.take_races();
  ASSERT_EQ(races.size(), 1U);
  EXPECT_EQ(races[0].kind, FakeRace::Kind::kUnordered);
  EXPECT_EQ(races[0].first.op, "aten::copy_");
  EXPECT_EQ(races[0].first.stream, copies.stream().id());
  copies.arrive(std::move(on_their_way))[0] * 2;
  EXPECT_THAT(fake.take_races(), IsEmpty());
}

// A batch that is dropped while a kernel is at it: the next copy may not get its memory.
TEST(DeviceBatches, WithoutTheRecordedStreamFreedMemoryIsARace) {
  FakeAccelerator fake({.races = Races::kCollect});
  tensor::CopyStream copies(kFake0);
  const auto use_and_drop = [&](bool recorded) {
    tensor::CopyStream::Copies sent = copies.begin({torch::randn({64}).pin_memory()});
    std::vector<at::Tensor> batch = sent.tensors;
    if (recorded)
      batch = copies.arrive(std::move(sent));
    else
      sent.done->block(fake_guard().getStream(kFake0));
    batch[0] * 2;
  };
  use_and_drop(true);
  copies.begin({torch::randn({64}).pin_memory()});
  EXPECT_THAT(fake.take_races(), IsEmpty());
  use_and_drop(false);
  copies.begin({torch::randn({64}).pin_memory()});
  const auto races = fake.take_races();
  ASSERT_FALSE(races.empty());
  EXPECT_EQ(races[0].kind, FakeRace::Kind::kFreed);
}

TEST(DeviceBatches, TheNextBatchIsCopiedBeforeAnythingComputesWithThisOne) {
  FakeAccelerator fake;
  Loader loader = loader_of(std::make_shared<Ragged>(), kFake0, 0);
  DeviceBatches batches(kFake0);
  batches.begin(loader.epoch(1));
  std::vector<std::string> queued;
  fake.on_operator([&](std::string_view op, c10::Device device) {
    const auto stream = fake_guard().getStream(device).id();
    const bool copies = op == "aten::copy_" && stream != 0;
    if (copies || op == "aten::sum") queued.push_back(copies ? "copy" : "compute");
  });
  const auto step = [&] {
    const auto arrived = batches.next();
    if (arrived) arrived->batch["tokens"].sum();
    return std::exchange(queued, {});
  };
  // Four tensors each: of batches 0 and 1, then of one more each time.
  const auto first = step(), second = step();
  EXPECT_EQ(std::count(first.begin(), first.end(), "copy"), 2 * 4);
  EXPECT_EQ(first.back(), "compute");
  EXPECT_THAT(second, ElementsAre("copy", "copy", "copy", "copy", "compute"));
  for (int i = 0; i < 3; ++i) step();
  EXPECT_THAT(step(), ElementsAre("compute")) << "the last batch: nothing is behind it";
  fake.on_operator({});
}

TEST(DeviceBatches, ThePlaceIsBehindTheBatchesHandedOut) {
  const FakeAccelerator fake;
  const auto dataset = std::make_shared<Ragged>();
  Loader plain = loader_of(dataset, c10::kCPU, 0), loader = loader_of(dataset, kFake0, 2);
  data::Epoch expected = plain.epoch(1);
  DeviceBatches batches(kFake0);
  batches.begin(loader.epoch(1));
  EXPECT_EQ(batches.state(), expected.state());
  for (int i = 0; i < 3; ++i) {
    batches.next();
    expected.next();
    EXPECT_EQ(batches.state(), expected.state());
  }
  const data::LoaderState place = batches.state();
  batches.begin(loader.epoch(place));
  for (int i = 0; i < 3; ++i) expect_same(batches.next()->batch, *expected.next());
  EXPECT_FALSE(batches.next());
  expected.next();
  EXPECT_EQ(batches.state(), expected.state());
  EXPECT_EQ(batches.state(), (data::LoaderState{.epoch = 2}));
}

TEST(DeviceBatches, ABatchThatCannotBeReadIsRefusedInItsTurnAndTheOthersCome) {
  const FakeAccelerator fake;
  const auto whole = batches_of(std::make_shared<Ragged>());
  const int64_t broken = whole[2].indices[1];
  Loader loader = loader_of(std::make_shared<Ragged>(broken), kFake0, 2);
  DeviceBatches batches(kFake0);
  batches.begin(loader.epoch(1));
  for (const size_t i : {0, 1}) expect_same(batches.next()->batch, whole[i]);
  EXPECT_THAT(error_of([&] { batches.next(); }),
              HasSubstr("cannot load sample " + std::to_string(broken) + " in batch 2 of epoch 1"));
  for (const size_t i : {3, 4, 5}) expect_same(batches.next()->batch, whole[i]);
  EXPECT_FALSE(batches.next());
}

TEST(DeviceBatches, AnEpochMayBeLeftWhileABatchIsOnItsWay) {
  const FakeAccelerator fake({.poison = true});
  const auto dataset = std::make_shared<Ragged>();
  const std::vector<Batch> expected = batches_of(dataset);
  Loader loader = loader_of(dataset, kFake0, 2);
  {
    DeviceBatches batches(kFake0);
    for (int i = 0; i < 5; ++i) {
      batches.begin(loader.epoch(1));
      expect_same(batches.next()->batch, expected[0]);
    }
  }
  EXPECT_EQ(fake.memory(0).blocks, 0);
}

TEST(DeviceBatches, OnTheCpuTheLoadersTensorsAreHandedThrough) {
  Loader loader = loader_of(std::make_shared<Ragged>(), c10::kCPU, 0);
  DeviceBatches batches(c10::kCPU);
  batches.begin(loader.epoch(1));
  const auto arrived = batches.next();
  EXPECT_FALSE(arrived->made);
  EXPECT_EQ(&arrived->on_host(), &arrived->batch);
  EXPECT_FALSE(arrived->batch["tokens"].is_pinned());
  EXPECT_EQ(batches.stats().batches, 1) << "nothing is asked for before its turn";
}

TEST(DeviceBatches, OnATraceCopiesLieBesideTheComputationWithTheBatchBefore) {
  const FakeAccelerator fake;
  int64_t tick = 0;
  tensor::DeviceSpans spans(kFake0, [&] { return tick += 1000; });
  Loader loader = loader_of(std::make_shared<Ragged>(), kFake0, 0);
  DeviceBatches batches(kFake0);
  size_t step = 0;
  int number = 0;
  batches.trace(&spans, [&] { step = spans.begin("compute", "step " + std::to_string(number++)); });
  batches.begin(loader.epoch(1));
  while (const auto arrived = batches.next()) {
    arrived->batch["tokens"].sum();
    spans.end(step);
  }
  std::vector<tensor::DeviceSpans::Span> copies, steps;
  for (auto& span : spans.collect())
    (span.row.starts_with("copies") ? copies : steps).push_back(span);
  ASSERT_EQ(copies.size(), 6U);
  ASSERT_EQ(steps.size(), 6U);
  EXPECT_THAT(copies[0].row, HasSubstr(" of fake:0"));
  EXPECT_LE(copies[0].end_ns, steps[0].begin_ns);
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    EXPECT_LE(steps[i].begin_ns, copies[i + 1].begin_ns) << i;
    EXPECT_LE(copies[i + 1].end_ns, steps[i].end_ns) << i;
  }
}

}  // namespace
}  // namespace muster
