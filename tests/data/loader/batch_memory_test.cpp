// Memory of batches that is used again, and never while somebody holds it.
#include "muster/data/batch_memory.h"

#include <optional>
#include <set>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include "muster/data/loader/loader.h"
#include "muster/data/sets/image_dataset.h"
#include "muster/data/transform/transformed.h"

namespace muster::data {
namespace {

constexpr int64_t kLarge = 4 << 20;  // bytes

std::optional<at::Tensor> filled(BatchMemory& memory, int64_t value, int64_t bytes = kLarge) {
  at::Tensor tensor = memory.empty({bytes}, at::kByte);
  tensor.fill_(value);
  return tensor;
}

TEST(BatchMemory, AViewKeepsItsBlockAndItsNumbers) {
  BatchMemory memory(2);
  memory.wake();
  auto one = filled(memory, 1);
  const void* place = one->const_data_ptr();
  std::optional<at::Tensor> view = one->narrow(0, 5, 3);
  one.reset();
  auto two = filled(memory, 2);
  EXPECT_NE(two->const_data_ptr(), place);
  EXPECT_EQ(view->sum().item<int64_t>(), 3);
  EXPECT_EQ(memory.made(), 2);
  view.reset();
  EXPECT_EQ(memory.kept(), 1U);
  const auto three = filled(memory, 3);
  EXPECT_EQ(three->const_data_ptr(), place);
  EXPECT_EQ(memory.made(), 2);
  EXPECT_EQ(two->max().item<int64_t>(), 2);
}

TEST(BatchMemory, LendsBlocksThatAreAtMostTwiceAsLarge) {
  BatchMemory memory(2);
  memory.wake();
  filled(memory, 1).reset();
  filled(memory, 1, kLarge / 2 + 1).reset();
  EXPECT_EQ(memory.made(), 1);
  filled(memory, 1, kLarge / 4).reset();
  EXPECT_EQ(memory.made(), 2);
  filled(memory, 1, kLarge + 1).reset();
  EXPECT_EQ(memory.made(), 3);
  EXPECT_EQ(memory.kept(), 2U) << "the oldest has gone";
}

TEST(BatchMemory, KeepsNothingWhileItRestsAndTensorsOutliveIt) {
  std::optional<BatchMemory> memory(std::in_place, 2);
  memory->wake();
  auto late = filled(*memory, 7);
  filled(*memory, 1).reset();
  EXPECT_EQ(memory->kept(), 1U);
  memory->rest();
  EXPECT_EQ(memory->kept(), 0U);
  filled(*memory, 1).reset();
  EXPECT_EQ(memory->kept(), 0U);
  memory.reset();
  EXPECT_EQ(late->min().item<int64_t>(), 7);
  late.reset();
}

TEST(BatchMemory, ATensorOfItIsResizedLikeAnyOther) {
  BatchMemory memory(2);
  memory.wake();
  auto tensor = filled(memory, 5);
  tensor->resize_({2 * kLarge});
  EXPECT_EQ(tensor->narrow(0, 0, kLarge).min().item<int64_t>(), 5);
  EXPECT_EQ(memory.kept(), 1U) << "it has moved";
}

TEST(BatchMemory, IsForWhoMakesABatchAndForWhatIsLarge) {
  const std::vector<int64_t> large{kLarge}, small{100};
  BatchMemory memory(2);
  batch_tensor(large, at::kByte, false);
  EXPECT_EQ(memory.made(), 0);
  {
    const BatchMemory::Use use(&memory, false);
    batch_tensor(small, at::kByte, false);
    EXPECT_EQ(memory.made(), 0);
    EXPECT_EQ(batch_tensor(large, at::kByte, false).sizes(), at::IntArrayRef(large));
    EXPECT_EQ(memory.made(), 1);
    EXPECT_FALSE(makes_pinned_batch());
  }
  batch_tensor(large, at::kByte, false);
  EXPECT_EQ(memory.made(), 1);
}

constexpr int64_t kImages = 300, kImageBatch = 64;  // of 1 MB and more

std::shared_ptr<const Dataset> large_images() {
  return std::make_shared<ImageDataset>(DataSpec{.name = "large",
                                                 .sample_shape = {3, 48, 48},
                                                 .classes = kImages,
                                                 .mean = {0.5, 0.4, 0.3},
                                                 .standard_deviation = {0.2, 0.3, 0.4}},
                                        at::randint(256, {kImages, 3, 48, 48}, at::kByte),
                                        at::arange(kImages));
}

TEST(BatchMemory, BatchesThatAUserKeepsNeverChange) {
  const auto plain = large_images();
  for (const auto& dataset : {plain, transformed(plain, "center_crop:size=40")}) {
    for (const int64_t workers : {0, 2}) {
      Loader loader(dataset, {.batch_size = kImageBatch, .workers = workers});
      std::vector<Batch> kept;
      for (const int64_t epoch : {0, 1}) {
        for (Batch& batch : loader.epoch(epoch)) {
          if (batch.indices[0] % (2 * kImageBatch) == 0)
            kept.push_back(batch);  // others are dropped
        }
      }
      ASSERT_EQ(kept.size(), 6U);
      for (const Batch& batch : kept) {
        const Batch again = dataset->get(batch.indices);
        EXPECT_TRUE(at::equal(batch["data"], again["data"])) << workers << " workers";
        EXPECT_TRUE(at::equal(batch["target"], again["target"]));
      }
    }
  }
}

TEST(BatchMemory, ADroppedBatchIsTheNextOnesMemory) {
  Loader loader(large_images(), {.batch_size = kImageBatch, .drop_last = true});
  std::set<const void*> places;
  for (const Batch& batch : loader.epoch(0)) places.insert(batch["data"].const_data_ptr());
  EXPECT_EQ(places.size(), 1U);
}

}  // namespace
}  // namespace muster::data
