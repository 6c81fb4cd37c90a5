// Steps made of steps: what is chosen, how often, and what hangs on it.
#include "muster/data/transform/compose.h"

#include <cmath>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/loader/loader.h"
#include "muster/data/samplers/exact_cover.h"
#include "muster/data/sets/image_dataset.h"
#include "muster/data/transform/transformed.h"

#include "tests/support/error_of.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

DataSpec bytes_spec(int64_t height = 6, int64_t width = 6) {
  return {.name = "images", .sample_shape = {3, height, width}, .classes = 2, .dtype = at::kByte};
}

/// Writes its number behind those of the steps before it.
TransformMaker tagging(int64_t number) {
  return each_sample([number](Sample& sample, Rng&) {
    at::Tensor& digits = sample["data"];
    digits = digits * 10 + number;
  });
}

/// Which steps a sample went through, "132", for each of so many samples.
std::map<int64_t, int> paths(const TransformMaker& maker, int samples, uint64_t seed = 1) {
  const auto step = maker({.name = "numbers", .sample_shape = {}});
  std::map<int64_t, int> counts;
  for (int i = 0; i < samples; ++i) {
    Sample sample{.tensors = {{"data", torch::zeros({}, torch::kLong)}}, .index = i};
    Rng rng(seed, 0, i);
    step->apply(sample, rng);
    ++counts[sample["data"].item<int64_t>()];
  }
  return counts;
}

constexpr int kSamples = 6000;

/// Each path as often as said, within five deviations, and no other.
void expect_shares(const std::map<int64_t, int>& counts, const std::map<int64_t, double>& shares) {
  int all = 0;
  for (const auto& [path, share] : shares) {
    const auto found = counts.find(path);
    const int count = found == counts.end() ? 0 : found->second;
    EXPECT_NEAR(count, kSamples * share, 5 * std::sqrt(kSamples * share * (1 - share))) << path;
    all += count;
  }
  EXPECT_EQ(all, kSamples) << "another path was taken";
}

TEST(OneOf, DoesOneOfItsStepsBySharesWithItsOwnProbability) {
  expect_shares(paths(one_of({tagging(1), tagging(2)}), kSamples),
                {{0, 0.5}, {1, 0.25}, {2, 0.25}});
  expect_shares(
      paths(one_of({tagging(1), tagging(2), tagging(3)}, {.p = 0.8, .weights = {0.5, 0, 1.5}}),
            kSamples),
      {{0, 0.2}, {1, 0.2}, {3, 0.6}});
}

// albumentations 2.0.8: SomeOf takes each set of n alike often, sorts it, and leaves each its own p.
TEST(SomeOf, TakesEachSetAlikeOftenInTheOrderInWhichItsStepsStand) {
  const std::vector<TransformMaker> three{tagging(1), tagging(2), tagging(3)};
  expect_shares(paths(some_of(three, {.n = 2}), kSamples),
                {{12, 1 / 3.0}, {13, 1 / 3.0}, {23, 1 / 3.0}});
  expect_shares(paths(some_of(three, {.n = 3, .p = 0.25}), kSamples), {{0, 0.75}, {123, 0.25}});
  expect_shares(paths(some_of({tagging(1), tagging(2)}, {.n = 2, .replace = true}), kSamples),
                {{11, 0.25}, {12, 0.5}, {22, 0.25}});
  expect_shares(paths(some_of({tagging(1), random_apply({tagging(2)}, 0.4)}, {.n = 2}), kSamples),
                {{1, 0.6}, {12, 0.4}});
}

TEST(RandomApply, DoesAllOfItsStepsOrNone) {
  expect_shares(paths(random_apply({tagging(1), tagging(2)}, 0.3), kSamples),
                {{0, 0.7}, {12, 0.3}});
  expect_shares(paths(sequential({tagging(1), tagging(2)}), kSamples), {{0, 0.5}, {12, 0.5}});
  expect_shares(paths(sequential({tagging(1), tagging(2)}, 1), kSamples), {{12, 1}});
}

TEST(RandomChoice, DoesOneOfItsSteps) {
  expect_shares(paths(random_choice({tagging(1), tagging(2)}, {1, 3}), kSamples),
                {{1, 0.25}, {2, 0.75}});
}

TEST(RandomOrder, DoesAllOfItsStepsInEachOrderAlikeOften) {
  std::map<int64_t, double> shares;
  for (const int64_t order : {123, 132, 213, 231, 312, 321}) shares[order] = 1 / 6.0;
  expect_shares(paths(random_order({tagging(1), tagging(2), tagging(3)}), kSamples), shares);
}

at::Tensor image_of(int64_t height = 6, int64_t width = 6) {
  return torch::arange(3 * height * width).remainder(251).to(torch::kByte).view({3, height, width});
}

/// What a chain makes of image_of() as sample `index`.
at::Tensor made_by(const std::string& chain, int64_t index) {
  Sample sample{.tensors = {{"data", image_of()}}, .index = index};
  DataSpec spec = bytes_spec();
  for (const TransformMaker& maker : parse_transforms(chain)) {
    const auto step = maker(spec);
    Rng rng(3, 0, index);
    step->apply(sample, rng);
    spec = step->spec();
  }
  return sample["data"];
}

TEST(OneOf, InAChainIsSureOfItsStepsWhoseOwnPAreShares) {
  const at::Tensor inverted = image_of().bitwise_not(), flipped = image_of().flip(-1);
  int inversions = 0;
  constexpr int kDraws = 2000;
  for (int i = 0; i < kDraws; ++i) {
    const at::Tensor out =
        made_by("one_of(random_invert:p=0.1|random_horizontal_flip:p=0.3):p=1", i);
    ASSERT_TRUE(out.equal(inverted) || out.equal(flipped));
    inversions += out.equal(inverted) ? 1 : 0;
  }
  EXPECT_NEAR(inversions, kDraws * 0.25, 5 * std::sqrt(kDraws * 0.25 * 0.75));
  // What stands in it is sure as well where it is made of steps; p that is not written is 0.5.
  const at::Tensor both = inverted.flip(-1);
  int pairs = 0;
  for (int i = 0; i < kDraws; ++i) {
    const at::Tensor out = made_by(
        "one_of(sequential(random_invert:p=1|random_horizontal_flip:p=1)|random_vertical_flip):p=1",
        i);
    ASSERT_TRUE(out.equal(both) || out.equal(image_of().flip(-2)));
    pairs += out.equal(both) ? 1 : 0;
  }
  EXPECT_NEAR(pairs, kDraws * 0.5, 5 * std::sqrt(kDraws * 0.25));
}

TEST(Chain, GivesAnyStepAProbability) {
  const at::Tensor padded = torch::constant_pad_nd(image_of(), {1, 1, 1, 1}, 0);
  int padded_ones = 0;
  constexpr int kDraws = 1000;
  for (int i = 0; i < kDraws; ++i) {
    const at::Tensor out = made_by("pad:padding=1,p=0.3", i);
    ASSERT_TRUE(out.equal(image_of()) || out.equal(padded));
    padded_ones += out.equal(padded) ? 1 : 0;
  }
  EXPECT_NEAR(padded_ones, kDraws * 0.3, 5 * std::sqrt(kDraws * 0.21));
  EXPECT_TRUE(made_by("pad:padding=1,p=1", 0).equal(padded));
  EXPECT_TRUE(made_by("pad:padding=1,p=0", 0).equal(image_of()));
}

at::Tensor epoch_of(const std::shared_ptr<const Dataset>& dataset, int64_t ranks, int64_t workers) {
  at::Tensor all = torch::zeros({dataset->size(), 3, 6, 6});
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Loader loader(dataset,
                  {.batch_size = 3 + workers, .workers = workers, .seed = 9},
                  std::make_unique<ExactCoverSampler>(
                      dataset->size(),
                      ExactCoverSamplerOptions{
                          .world_size = ranks, .rank = rank, .seed = 9, .shuffle = true}));
    for (const Batch& batch : loader.epoch(2))
      all.index_copy_(0, torch::tensor(batch.indices), batch["data"]);
  }
  return all;
}

TEST(Chain, ChoosesBySeedEpochSampleAndPlaceAlone) {
  const auto source =
      std::make_shared<ImageDataset>(DataSpec{.name = "bytes",
                                              .sample_shape = {3, 6, 6},
                                              .classes = 2,
                                              .mean = {0.1, 0.4, 0.6},
                                              .standard_deviation = {0.3, 0.3, 0.3}},
                                     image_of().expand({23, 3, 6, 6}).contiguous(),
                                     torch::arange(23).remainder(2));
  const auto dataset = transformed(
      source,
      "one_of(random_invert|random_crop:padding=2)|"
      "some_of(random_horizontal_flip|random_posterize:bits=2|color_jitter:brightness=0.5):n=2|"
      "random_order(random_vertical_flip|random_solarize:threshold=99)");
  const at::Tensor one = epoch_of(dataset, 1, 0);
  EXPECT_TRUE(one.equal(epoch_of(dataset, 1, 3)));
  EXPECT_TRUE(one.equal(epoch_of(dataset, 3, 1)));
  // Nothing has to be kept to have them again.
  const SampleContext context{.seed = 9, .epoch = 2};
  const std::vector<int64_t> indices{17, 4};
  const at::Tensor again = dataset->get(indices, context)["data"];
  EXPECT_TRUE(again[0].equal(one[17]) && again[1].equal(one[4]));
  const at::Tensor later = dataset->get(indices, {.seed = 9, .epoch = 3})["data"];
  EXPECT_FALSE(later.equal(again));
}

std::vector<int64_t> shape_behind(const std::string& chain, const DataSpec& before = bytes_spec()) {
  DataSpec spec = before;
  for (const TransformMaker& maker : parse_transforms(chain)) spec = maker(spec)->spec();
  return spec.sample_shape;
}

TEST(Chain, KnowsTheSizesThatItsStepsLeave) {
  EXPECT_THAT(shape_behind("one_of(center_crop:size=4|random_crop:size=4):p=1"),
              ElementsAre(3, 4, 4));
  EXPECT_THAT(shape_behind("one_of(center_crop:size=4|random_crop:size=4)"), ElementsAre(3, 0, 0));
  EXPECT_THAT(shape_behind("random_choice(center_crop:size=[4,6]|random_invert)"),
              ElementsAre(3, 0, 6));
  EXPECT_THAT(shape_behind("random_apply(center_crop:size=4|resize:size=6)"), ElementsAre(3, 6, 6));
  EXPECT_THAT(shape_behind("some_of(pad:padding=1|random_invert):n=1"), ElementsAre(3, 0, 0));
  EXPECT_THAT(shape_behind("random_order(random_vertical_flip|random_invert)"),
              ElementsAre(3, 6, 6));
  EXPECT_THAT(shape_behind("random_choice(pad:padding=1|random_invert)|center_crop:size=5"),
              ElementsAre(3, 5, 5));
}

std::string refused(const std::string& chain) {
  return test::error_of([&] { shape_behind(chain); });
}

TEST(Chain, RefusesStepsThatDoNotGoTogether) {
  EXPECT_THAT(refused("one_of(grayscale|random_invert)"),
              HasSubstr("one_of of images: samples have one form, whichever of its steps they go "
                        "through (got uint8 of 3 channels; uint8 of 1 channels)"));
  EXPECT_THAT(refused("random_choice(to_dtype|random_invert)"), HasSubstr("float32 of 3 channels"));
  EXPECT_THAT(refused("random_apply(grayscale)"), HasSubstr("random_apply of images"));
  EXPECT_THAT(refused("grayscale:p=0.5"),
              HasSubstr("transform grayscale of images: samples have one form"));
  EXPECT_EQ(refused("random_apply(grayscale):p=1"), test::kNoError);
  EXPECT_THAT(refused("one_of"), HasSubstr("steps stand in it: one_of(grayscale|random_invert)"));
  EXPECT_THAT(refused("pad(grayscale):padding=1"), HasSubstr("steps in pad(…): it takes none"));
  EXPECT_THAT(refused("one_of(grayscale|nonsense)"), HasSubstr("nonsense"));
  EXPECT_THAT(refused("one_of(random_invert):q=1"), HasSubstr("no parameter \"q\""));
  EXPECT_THAT(refused("one_of(random_invert):p=2"), HasSubstr("parameter \"p\": it is in 0 … 1"));
  EXPECT_THAT(refused("pad:padding=1,p=often"), HasSubstr("transform pad parameter \"p\""));
  EXPECT_THAT(refused("one_of(random_invert:p=0)"), HasSubstr("weights of transform one_of"));
  EXPECT_THAT(refused("random_choice(random_invert|pad:padding=1):p=[1]"),
              HasSubstr("one for each of 2 steps (got 1)"));
  EXPECT_THAT(refused("random_choice(random_invert|pad:padding=1):p=[1,-1]"),
              HasSubstr("at least 0 (got -1)"));
  EXPECT_THAT(refused("some_of(random_invert):n=2"), HasSubstr("1 … 1, its steps (got 2)"));
  EXPECT_THAT(refused("some_of(random_invert):n=0"), HasSubstr("(got 0)"));
  EXPECT_EQ(refused("random_order(random_invert):p=0.5"), test::kNoError);
  EXPECT_THAT(test::error_of([] { random_order({}); }), HasSubstr("at least one step"));
}

}  // namespace
}  // namespace muster::data
