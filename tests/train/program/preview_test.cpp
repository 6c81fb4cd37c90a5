// What `muster data preview` draws of a dataset.
#include "muster/train/program/preview.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/sets/image_dataset.h"
#include "muster/data/sets/sample_dataset.h"
#include "muster/data/transform/transformed.h"

#include "tests/support/error_of.h"

namespace muster::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const data::Dataset> some_bytes(int64_t samples) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(4);
  return std::make_shared<data::ImageDataset>(
      data::DataSpec{.name = "bytes",
                     .sample_shape = {1, 6, 7},
                     .classes = 2,
                     .class_names = {"cat", "dog"},
                     .mean = {0.4},
                     .standard_deviation = {0.3}},
      torch::randint(0, 256, {samples, 1, 6, 7}, generator, torch::kByte),
      torch::arange(samples).remainder(2));
}

/// [C, H, W] of bytes as a sheet has it.
std::vector<uint8_t> rgb_of(const at::Tensor& image) {
  const at::Tensor pixels = image.expand({3, -1, -1}).permute({1, 2, 0}).contiguous();
  return {pixels.const_data_ptr<uint8_t>(), pixels.const_data_ptr<uint8_t>() + pixels.numel()};
}

TEST(Preview, ShowsWhatALoaderWithThatSeedGivesInEachEpoch) {
  const auto dataset = some_bytes(10);
  const char* chain = "one_of(random_invert|random_crop:padding=2):p=1|random_horizontal_flip";
  const track::ContactSheet sheet = preview_sheet(
      dataset, data::parse_transforms(chain), {.count = 3, .draws = 4, .seed = 5, .epoch = 2});
  EXPECT_THAT(sheet.headings, ElementsAre("as it is", "epoch 2", "epoch 3", "epoch 4", "epoch 5"));
  ASSERT_EQ(sheet.rows.size(), 3);
  const std::vector<int64_t> indices{1, 5, 8};
  const auto before = dataset->before_normalising();
  const auto floats = data::transformed(dataset, chain);
  for (size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(sheet.rows[row].caption,
              concat("sample ", indices[row], "   ", indices[row] % 2 == 0 ? "cat" : "dog"));
    ASSERT_EQ(sheet.rows[row].images.size(), 5);
    const std::vector<int64_t> one{indices[row]};
    EXPECT_EQ(sheet.rows[row].images[0].rgb, rgb_of(before->get(one)["data"][0]));
    for (int64_t draw = 0; draw < 4; ++draw) {
      // As training has them, normalised: the nearest byte is the same one.
      const at::Tensor seen = floats->get(one, {.seed = 5, .epoch = 2 + draw})["data"][0];
      EXPECT_EQ(sheet.rows[row].images[static_cast<size_t>(draw) + 1].rgb,
                rgb_of(seen.mul(0.3).add(0.4).mul(255).round().to(torch::kByte)));
    }
  }
}

TEST(Preview, ShowsFloatsAsThePixelsThatTheyCameFrom) {
  const auto dataset = some_bytes(4);
  const auto steps = data::parse_transforms("normalize");
  const track::ContactSheet sheet = preview_sheet(dataset, steps, {.count = 9, .draws = 1});
  ASSERT_EQ(sheet.rows.size(), 4) << "no more than there are";
  for (const track::SheetRow& row : sheet.rows) EXPECT_EQ(row.images[0].rgb, row.images[1].rgb);
}

class Boxed final : public data::SampleDataset {
 public:
  int64_t size() const override { return 2; }
  data::DataSpec spec() const override {
    return {.name = "boxed",
            .sample_shape = {3, 20, 30},
            .class_names = {"cat", "dog"},
            .dtype = at::kByte};
  }

 private:
  data::Sample sample(int64_t /*index*/, const data::SampleContext&) const override {
    return {.tensors = {{"data", torch::full({3, 20, 30}, 100, torch::kByte)},
                        {"boxes", torch::tensor({2.0, 3.0, 12.0, 9.0}).view({1, 4})},
                        {"boxes_cxcywhr", torch::tensor({15.0, 10.0, 4.0, 2.0, 90.0}).view({1, 5})},
                        {"labels", torch::tensor({1})},
                        {"mask", torch::arange(600).view({20, 30}).lt(30)},
                        {"keypoints", torch::tensor({4.0, 5.0, 6.0, 7.0}).view({2, 2})}}};
  }
};

TEST(Preview, MarksBoxesMasksAndKeypointsWhereTheyAre) {
  const track::ContactSheet sheet =
      preview_sheet(std::make_shared<Boxed>(),
                    data::parse_transforms("random_horizontal_flip:p=1"),
                    {.count = 1, .draws = 1});
  const track::SheetImage& before = sheet.rows.at(0).images.at(0);
  const track::SheetImage& after = sheet.rows.at(0).images.at(1);
  ASSERT_EQ(before.outlines.size(), 2);
  EXPECT_EQ(before.outlines[0].label, "dog");
  using track::Point;
  EXPECT_THAT(before.outlines[0].corners,
              ElementsAre(Point{2, 3}, Point{12, 3}, Point{12, 9}, Point{2, 9}));
  EXPECT_THAT(after.outlines[0].corners,
              ElementsAre(Point{18, 3}, Point{28, 3}, Point{28, 9}, Point{18, 9}));
  ASSERT_EQ(before.outlines[1].corners.size(), 4);
  EXPECT_NEAR(before.outlines[1].corners[0].x, 14, 1e-5);
  EXPECT_NEAR(before.outlines[1].corners[0].y, 12, 1e-5);
  EXPECT_THAT(before.points, ElementsAre(Point{4, 5}, Point{6, 7}));
  EXPECT_THAT(after.points, ElementsAre(Point{25, 5}, Point{23, 7}));
  EXPECT_NE(before.rgb[0], 100) << "below the mask";
  EXPECT_EQ(before.rgb[static_cast<size_t>(3) * 30], 100) << "beside it";
}

TEST(Preview, RefusesWhatIsNoImageAndCountsOutOfRange) {
  const auto refused = [](const PreviewOptions& options) {
    return test::error_of([&] { preview_sheet(some_bytes(3), {}, options); });
  };
  EXPECT_THAT(refused({.count = 0}), HasSubstr("count of a preview: it is in 1 … 200 (got 0)"));
  EXPECT_THAT(refused({.draws = -1}), HasSubstr("draws of a preview"));
  EXPECT_THAT(refused({.epoch = -1}), HasSubstr("epoch of a preview"));
}

}  // namespace
}  // namespace muster::train
