#include "muster/data/sets/image_dataset.h"

#include <array>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

#include "tests/support/error_of.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

DataSpec rgb_spec() {
  return {.name = "rgb",
          .sample_shape = {3, 5, 7},
          .classes = 4,
          .mean = {0.485, 0.456, 0.406},
          .standard_deviation = {0.229, 0.224, 0.225}};
}

at::Tensor rgb_images(int64_t samples) {
  return torch::randint(256, {samples, 3, 5, 7}, torch::kUInt8);
}
at::Tensor labels(int64_t samples) { return torch::arange(samples, torch::kLong).remainder(4); }

std::string refusal(DataSpec spec, at::Tensor images, at::Tensor targets) {
  return test::refusal_of(
      [&] { ImageDataset(std::move(spec), std::move(images), std::move(targets)); });
}

TEST(ImageDataset, EqualsTheStepsOfTorchvisionBitForBit) {
  const at::Tensor images = rgb_images(20);
  const ImageDataset data(rgb_spec(), images, labels(20));
  const std::array<int64_t, 4> indices{19, 0, 7, 7};
  const Batch batch = data.get(indices);
  const at::Tensor picked = images.index_select(0, torch::tensor({19, 0, 7, 7}));
  const at::Tensor mean = torch::tensor({0.485F, 0.456F, 0.406F}).view({3, 1, 1});
  const at::Tensor deviation = torch::tensor({0.229F, 0.224F, 0.225F}).view({3, 1, 1});
  EXPECT_TRUE(batch["data"].equal(picked.to(torch::kFloat).div(255).sub(mean).div(deviation)));
  EXPECT_TRUE(batch["target"].equal(torch::tensor({3, 0, 3, 3}, torch::kLong)));
  EXPECT_THAT(batch.indices, ElementsAre(19, 0, 7, 7));
}

TEST(ImageDataset, OnlyScalesWithoutMeanAndDeviation) {
  const at::Tensor images = rgb_images(2);
  const ImageDataset data(
      {.name = "plain", .sample_shape = {3, 5, 7}, .classes = 4}, images, labels(2));
  const int64_t one = 1;
  EXPECT_TRUE(data.get({&one, 1})["data"][0].equal(images[1].to(torch::kFloat).div(255)));
}

TEST(ImageDataset, TakesImagesThatAreNotContiguousAndLabelsOfBytes) {
  const at::Tensor images = rgb_images(6);
  const at::Tensor strided = images.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
  const ImageDataset data(rgb_spec(), strided, labels(6).to(torch::kUInt8));
  const ImageDataset same(rgb_spec(), images, labels(6));
  const int64_t five = 5;
  EXPECT_TRUE(data.get({&five, 1})["data"].equal(same.get({&five, 1})["data"]));
  EXPECT_EQ(data.get({&five, 1})["target"].item<int64_t>(), 1);
}

TEST(ImageDataset, GivesAnEmptyBatchForNoIndices) {
  const Batch batch = ImageDataset(rgb_spec(), rgb_images(2), labels(2)).get({});
  EXPECT_THAT(batch["data"].sizes(), ElementsAre(0, 3, 5, 7));
  EXPECT_EQ(batch.size(), 0);
}

TEST(ImageDataset, RefusesIndicesOutsideTheDataset) {
  const ImageDataset data(rgb_spec(), rgb_images(6), labels(6));
  for (const int64_t bad : {-1, 6}) {
    try {
      data.get({&bad, 1});
      FAIL() << "index " << bad << " was read";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("no such sample in rgb: indices run from 0 to 5"));
    }
  }
}

TEST(ImageDataset, RefusesWhatDoesNotFitTogether) {
  EXPECT_THAT(refusal(rgb_spec(), rgb_images(3), labels(2)), HasSubstr("2 labels, 3 images"));
  EXPECT_THAT(refusal(rgb_spec(), torch::zeros({3, 1, 5, 7}, torch::kUInt8), labels(3)),
              HasSubstr("[1, 5, 7] instead of [3, 5, 7]"));
  EXPECT_THAT(refusal(rgb_spec(), torch::zeros({3, 3, 5, 7}), labels(3)), HasSubstr("of bytes"));
  EXPECT_THAT(refusal(rgb_spec(), {}, labels(3)), HasSubstr("no tensor"));
  EXPECT_THAT(refusal(rgb_spec(), rgb_images(3), torch::zeros({3})),
              HasSubstr("labels are a CPU tensor"));
}

TEST(ImageDataset, RefusesLabelsThatAreNoClass) {
  EXPECT_THAT(refusal(rgb_spec(), rgb_images(2), torch::tensor({0, 4}, torch::kLong)),
              HasSubstr("labels run from 0 to 3 (got 4 for sample 1)"));
  EXPECT_THAT(refusal(rgb_spec(), rgb_images(2), torch::tensor({-1, 0}, torch::kLong)),
              HasSubstr("got -1 for sample 0"));
}

TEST(ImageDataset, RefusesANormalisationThatDoesNotFit) {
  DataSpec spec = rgb_spec();
  spec.mean.pop_back();
  EXPECT_THAT(refusal(spec, rgb_images(2), labels(2)), HasSubstr("2 and 3 for 3 channels"));
  spec = rgb_spec();
  spec.standard_deviation[1] = 0;
  EXPECT_THAT(refusal(spec, rgb_images(2), labels(2)),
              HasSubstr("a standard deviation is positive (got 0)"));
  spec.standard_deviation[1] = INFINITY;
  EXPECT_THAT(refusal(spec, rgb_images(2), labels(2)), HasSubstr("is finite (got inf)"));
  spec = rgb_spec();
  spec.mean[2] = NAN;
  EXPECT_THAT(refusal(spec, rgb_images(2), labels(2)), HasSubstr("a mean is finite (got nan)"));
}

}  // namespace
}  // namespace muster::data
