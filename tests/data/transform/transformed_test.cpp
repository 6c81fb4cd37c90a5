// Chains of transforms, whatever their steps.
#include "muster/data/transform/transformed.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/loader/loader.h"
#include "muster/data/samplers/exact_cover.h"
#include "muster/data/sets/image_dataset.h"
#include "muster/data/sets/sample_dataset.h"
#include "muster/data/sets/split.h"
#include "muster/data/sets/tensor_dataset.h"

#include "tests/support/error_of.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kChain = "random_crop:padding=2|random_horizontal_flip";

std::shared_ptr<const ImageDataset> pixels(int64_t samples) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(4);
  return std::make_shared<ImageDataset>(
      DataSpec{.name = "bytes",
               .sample_shape = {1, 6, 6},
               .classes = 2,
               .mean = {0.4},
               .standard_deviation = {0.3}},
      torch::randint(0, 256, {samples, 1, 6, 6}, generator, torch::kByte),
      torch::arange(samples).remainder(2));
}

std::vector<int64_t> numbers(int64_t samples) {
  std::vector<int64_t> all(static_cast<size_t>(samples));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Every sample's data of an epoch, by index, as `ranks` loaders with so many workers give them.
at::Tensor epoch_of(const std::shared_ptr<const Dataset>& dataset,
                    int64_t epoch,
                    int64_t ranks,
                    int64_t workers,
                    int64_t batch_size,
                    uint64_t seed = 9) {
  std::vector<int64_t> shape = dataset->spec().sample_shape;
  shape.insert(shape.begin(), dataset->size());
  at::Tensor all = torch::zeros(shape);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Loader loader(dataset,
                  {.batch_size = batch_size, .workers = workers, .seed = seed},
                  std::make_unique<ExactCoverSampler>(
                      dataset->size(),
                      ExactCoverSamplerOptions{
                          .world_size = ranks, .rank = rank, .seed = seed, .shuffle = true}));
    for (const Batch& batch : loader.epoch(epoch))
      all.index_copy_(0, torch::tensor(batch.indices), batch["data"]);
  }
  return all;
}

TEST(Transformed, NumbersDoNotHangOnRanksWorkersOrBatches) {
  const auto dataset = transformed(pixels(23), kChain);
  const at::Tensor one = epoch_of(dataset, 3, 1, 0, 23);
  EXPECT_TRUE(one.equal(epoch_of(dataset, 3, 2, 2, 4)));
  EXPECT_TRUE(one.equal(epoch_of(dataset, 3, 3, 1, 1)));
  EXPECT_FALSE(one.equal(epoch_of(dataset, 4, 1, 0, 23)));
  EXPECT_FALSE(one.equal(epoch_of(dataset, 3, 1, 0, 23, /*seed=*/10)));
}

/// Notes what it drew.
TransformMaker noting(const std::string& name) {
  return each_sample([name](Sample& sample, Rng& rng) {
    sample.tensors.emplace_back(name, torch::tensor(static_cast<int64_t>(rng.bits64() >> 1)));
  });
}

TEST(Transformed, EachStepHasNumbersOfItsOwnAlsoInAChainBehindAnother) {
  const auto source = std::make_shared<TensorDataset>(torch::zeros({3, 2}), torch::zeros({3}));
  const auto inner = transformed(source, {noting("a"), noting("b")});
  const auto outer = transformed(std::make_shared<SubsetDataset>(inner, 1, 2), {noting("c")});
  const Batch batch = outer->get(numbers(2), {.seed = 5, .epoch = 2});
  const auto drawn = [](int64_t index, int64_t position) {
    return static_cast<int64_t>(Rng(5, 2, index, position).bits64() >> 1);
  };
  for (int64_t row = 0; row < 2; ++row) {  // the chain next to the loader has the first position
    EXPECT_EQ(batch["c"][row].item<int64_t>(), drawn(row, 0));
    EXPECT_EQ(batch["a"][row].item<int64_t>(), drawn(row + 1, 1));
    EXPECT_EQ(batch["b"][row].item<int64_t>(), drawn(row + 1, 2));
  }
}

TEST(Transformed, StepsSeeBytesAndTheModelNormalisedFloats) {
  const auto source = pixels(5);
  at::ScalarType seen = at::kFloat;
  const auto look = each_sample([&](Sample& sample, Rng&) { seen = sample["data"].scalar_type(); });
  const auto same = transformed(source, {look});
  const Batch batch = same->get(numbers(5));
  EXPECT_EQ(seen, at::kByte);
  EXPECT_TRUE(batch["data"].equal(source->get(numbers(5))["data"]));  // and bit for bit
  EXPECT_TRUE(batch["target"].equal(source->labels()));
  EXPECT_EQ(same->spec().dtype, at::kFloat);
  EXPECT_THAT(same->spec().mean, ElementsAre(0.4));
  const auto explicitly = transformed(source, "normalize|random_crop:fill=0.5,padding=1");
  EXPECT_EQ(explicitly->spec().dtype, at::kFloat);
  // A chain behind a chain sees bytes as well.
  const auto again = transformed(same, {look});
  seen = at::kFloat;
  EXPECT_TRUE(again->get(numbers(5))["data"].equal(batch["data"]));
  EXPECT_EQ(seen, at::kByte);
}

TEST(Transformed, PartsOfASplitHaveTheirOwnChains) {
  const auto source = pixels(12);
  const SubsetList parts = random_split(source, {8, 4}, 1);
  const auto train = transformed(parts[0], kChain);
  const auto validation = transformed(parts[1], "");
  EXPECT_EQ(validation, parts[1]);
  EXPECT_EQ(train->size(), 8);
  EXPECT_EQ(train->fingerprint(), parts[0]->fingerprint());
  EXPECT_TRUE(train->targets().equal(parts[0]->targets()));
  EXPECT_TRUE(train->get(numbers(8))["target"].equal(train->targets()));
}

/// Sample i has i+1 numbers.
class Growing final : public SampleDataset {
 public:
  Growing() : SampleDataset(Collate({{.tensor = "data", .how = CollateRule::How::kPad}})) {}
  int64_t size() const override { return 4; }
  DataSpec spec() const override { return {.name = "growing", .sample_shape = {-1}}; }

 private:
  Sample sample(int64_t index, const SampleContext&) const override {
    return {.tensors = {{"data", torch::full({index + 1}, static_cast<double>(index))}}};
  }
};

TEST(Transformed, SamplesOfUnlikeSizesArePutTogetherBehindTheLastStep) {
  const auto doubled = transformed(std::make_shared<Growing>(), {each_sample([](Sample& s, Rng&) {
                                     s["data"] = torch::cat({s["data"], s["data"]});
                                   })});
  const std::vector<int64_t> wanted{0, 2};
  EXPECT_TRUE(doubled->get(wanted)["data"].equal(
      torch::tensor({{0, 0, 0, 0, 0, 0}, {2, 2, 2, 2, 2, 2}}).to(torch::kFloat)));
  EXPECT_EQ(doubled->samples(wanted)[1]["data"].size(0), 6);
  EXPECT_EQ(doubled->samples(wanted)[1].index, 2);
}

TEST(Transformed, RefusesWhatIsNoChain) {
  const auto chain = [](const char* text) {
    return test::error_of([&] { transformed(pixels(2), text); });
  };
  EXPECT_THAT(chain("random_crop||normalize"), HasSubstr("each step is name:key=value"));
  EXPECT_THAT(chain("random_flip"), HasSubstr("unknown transform \"random_flip\""));
  EXPECT_THAT(chain("random_crop:sise=3"), HasSubstr("\"sise\""));
  EXPECT_THAT(chain("normalize|normalize"), HasSubstr("of floats, mean and std are said"));
  EXPECT_EQ(transformed_spec(*pixels(2), parse_transforms(" random_crop:size=4 | normalize "))
                .sample_shape,
            (std::vector<int64_t>{1, 4, 4}));
}

}  // namespace
}  // namespace muster::data
