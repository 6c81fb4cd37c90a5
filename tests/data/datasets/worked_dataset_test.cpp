// The worked example of docs/add-a-dataset.md, which shows the class below.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/loader/loader.h"
#include "muster/data/rng.h"
#include "muster/data/samplers/random.h"

namespace {

using muster::data::Batch;
using muster::data::Dataset;
using muster::data::DataSpec;
using muster::data::RandomSamplerOptions;
using muster::data::SampleContext;

/// Points on two spirals around each other, with a little noise that is new in each epoch.
class Spirals final : public Dataset {
 public:
  explicit Spirals(int64_t samples) : samples_(samples) {}

  int64_t size() const override { return samples_; }

  DataSpec spec() const override { return {.name = "spirals", .sample_shape = {2}, .classes = 2}; }

 private:
  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override {
    const auto rows = static_cast<int64_t>(indices.size());
    Batch batch{.tensors = {{"data", torch::empty({rows, 2})},
                            {"target", torch::empty({rows}, torch::kLong)}},
                .indices = {indices.begin(), indices.end()}};
    auto* point = batch["data"].mutable_data_ptr<float>();
    auto* target = batch["target"].mutable_data_ptr<int64_t>();
    for (const int64_t index : indices) {
      const float turn = 6.0F * static_cast<float>(index) / static_cast<float>(samples_);
      const float side = index % 2 == 0 ? 1.0F : -1.0F;
      muster::data::Rng rng(context, index);
      *point++ = side * turn * std::cos(turn) + static_cast<float>(rng.uniform(-0.1, 0.1));
      *point++ = side * turn * std::sin(turn) + static_cast<float>(rng.uniform(-0.1, 0.1));
      *target++ = index % 2;
    }
    return batch;
  }

  int64_t samples_;
};

/// The two numbers of every sample of an epoch, by index. // [size, 2]
torch::Tensor points(const std::shared_ptr<const Spirals>& spirals,
                     int64_t workers,
                     int64_t epoch) {
  muster::data::Loader loader(spirals,
                              {.batch_size = 7, .workers = workers, .seed = 5},
                              std::make_unique<muster::data::RandomSampler>(
                                  spirals->size(), RandomSamplerOptions{.seed = 3}));
  torch::Tensor all = torch::zeros({spirals->size(), 2});
  for (const Batch& batch : loader.epoch(epoch))
    all.index_copy_(0, torch::tensor(batch.indices), batch["data"]);
  return all;
}

TEST(WorkedDataset, DependsOnSeedEpochAndSampleAndNotOnTheWorkers) {
  const auto spirals = std::make_shared<const Spirals>(30);
  EXPECT_TRUE(points(spirals, 0, 1).equal(points(spirals, 3, 1)));
  EXPECT_FALSE(points(spirals, 0, 1).equal(points(spirals, 0, 2)));
  EXPECT_LT((points(spirals, 0, 1) - points(spirals, 0, 2)).abs().max().item<float>(), 0.2F);
}

TEST(WorkedDataset, HasOneClassPerSpiral) {
  const Spirals spirals(30);
  const std::vector<int64_t> indices{4, 5, 4};
  const Batch batch = spirals.get(indices);
  EXPECT_TRUE(batch["target"].equal(torch::tensor({0, 1, 0}, torch::kLong)));
  EXPECT_TRUE(batch["data"][0].equal(batch["data"][2]));
}

}  // namespace
