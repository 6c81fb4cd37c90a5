// Boxes, masks and keypoints move with their image: as torchvision's (tests/golden/targets/README.md),
// and in each transform there is.
#include "muster/data/transform/targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/draws.h"
#include "muster/data/transform/transformed.h"

#include "tests/image/test_images.h"
#include "tests/support/error_of.h"
#include "tests/support/kernel_golden.h"

namespace muster::data {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr int64_t kShort = 21, kLong = 34;

at::Tensor golden_picture(int64_t seed) {
  const test::TestImage image = test::slopes_image(3, kShort, kLong, 2);
  const at::Tensor tensor =
      torch::tensor(at::ArrayRef<uint8_t>(image.bytes), torch::kByte).view({3, kShort, kLong});
  return seed % 2 == 0 ? tensor : tensor.permute({0, 2, 1}).contiguous();
}

at::Tensor golden_masks(const at::Tensor& image) {
  const at::Tensor rows = torch::arange(image.size(1)).view({-1, 1});
  const at::Tensor columns = torch::arange(image.size(2));
  std::vector<at::Tensor> masks;
  for (int64_t mask = 0; mask < 4; ++mask)
    masks.push_back(rows.mul(5).add(columns.mul(3)).add(mask * 11).floor_divide(7).remainder(4));
  return torch::stack(masks).to(torch::kByte);
}

at::Tensor doubles(const Json& numbers, int64_t columns) {
  return torch::tensor(numbers.get<std::vector<double>>(), torch::kDouble).view({-1, columns});
}

std::vector<double> numbers_in(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(torch::kDouble).contiguous().flatten();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

template <class Source>
void go_through(const std::string& chain, Sample& sample, Source& source) {
  const at::Tensor& image = sample["data"];
  DataSpec spec{
      .name = "image", .sample_shape = {image.size(0), 0, 0}, .dtype = image.scalar_type()};
  for (const TransformMaker& maker : parse_transforms(chain)) {
    const auto step = maker(spec);
    step->apply(sample, source);
    spec = step->spec();
  }
}

/// A sample whose boxes are those of the case in `format`.
Sample golden_sample(const Json& item, const std::string& format) {
  const at::Tensor image = golden_picture(item.at("seed"));
  const auto boxes = functional::box_format_of(format).value();
  return {.tensors = {{"data", image},
                      {"boxes_" + format,
                       doubles(item.at(format).at("before"), functional::numbers_of(boxes))},
                      {"labels", torch::tensor({7, 3, 9, 1})},
                      {"masks", golden_masks(image)},
                      {"keypoints",
                       torch::tensor({0.0,
                                      0.0,
                                      5.0,
                                      7.5,
                                      20.0,
                                      20.0,
                                      12.25,
                                      3.0,
                                      10.0,
                                      10.0,
                                      1.0,
                                      19.0,
                                      4.0,
                                      4.0,
                                      4.5,
                                      4.5},
                                     torch::kDouble)
                           .view({4, 2, 2})}}};
}

/// The case's boxes in each of its formats, and its keypoints. The last sample.
Sample expect_golden_numbers(const Json& item, bool with_keypoints) {
  const std::string chain = item.at("chain");
  Sample sample;
  for (const char* format : {"xyxy", "xywh", "cxcywh", "xywhr", "cxcywhr", "xyxyxyxy"}) {
    if (!item.contains(format)) continue;
    SCOPED_TRACE(concat(chain, " of seed ", item.at("seed").get<int>(), ", ", format));
    sample = golden_sample(item, format);
    TorchDraws draws = torch_draws(item.at("seed").get<uint64_t>());
    go_through(chain, sample, draws);
    const Json& out = item.at(format).at("out");
    EXPECT_THAT(
        numbers_in(sample[std::string("boxes_") + format]),
        Pointwise(DoubleNear(out.at("tolerance")), out.at("numbers").get<std::vector<double>>()));
    const Json& points = item.at("keypoints");
    if (!with_keypoints) continue;
    EXPECT_THAT(numbers_in(sample["keypoints"]),
                Pointwise(DoubleNear(points.at("tolerance")),
                          points.at("numbers").get<std::vector<double>>()));
  }
  EXPECT_EQ(sample["masks"].sizes().vec(), item.at("shape").get<std::vector<int64_t>>()) << chain;
  return sample;
}

void expect_nearly_the_same_mask(const at::Tensor& masks, const std::string& hex) {
  if (masks.size(0) == 0) return;
  const at::Tensor mask = masks[0].contiguous();
  const auto* bytes = mask.const_data_ptr<uint8_t>();
  int64_t differing = 0;
  for (int64_t i = 0; i < mask.numel(); ++i)
    differing += std::stoi(hex.substr(static_cast<size_t>(2 * i), 2), nullptr, 16) != bytes[i];
  EXPECT_LE(differing, mask.numel() / 50);
}

TEST(Targets, MoveAsTorchvisionMovesThem) {
  if (!test::has_fused_kernels()) GTEST_SKIP() << "LibTorch's default kernels draw other numbers";
  const Json golden = test::read_golden("targets");  // outlives the loop
  for (const Json& item : golden.at("exact")) {
    const Sample sample = expect_golden_numbers(item, true);
    const at::Tensor masks = sample["masks"].contiguous();
    EXPECT_EQ(test::digest_text(masks.const_data_ptr(), masks.nbytes()),
              item.at("masks").get<std::string>())
        << item.at("chain") << " of seed " << item.at("seed");
  }
  for (const Json& item : golden.at("sampled")) {
    const Sample sample = expect_golden_numbers(item, true);
    expect_nearly_the_same_mask(sample["masks"], item.at("masks"));
  }
}

TEST(Targets, AreFilteredAndClampedAsTorchvisionDoesIt) {
  if (!test::has_fused_kernels()) GTEST_SKIP() << "LibTorch's default kernels draw other numbers";
  const Json golden = test::read_golden("targets");  // outlives the loop
  for (const Json& item : golden.at("filtered")) {
    const Sample sample = expect_golden_numbers(item, false);
    const at::Tensor labels = sample["labels"];
    EXPECT_EQ(std::vector<int64_t>(labels.const_data_ptr<int64_t>(),
                                   labels.const_data_ptr<int64_t>() + labels.numel()),
              item.at("labels").get<std::vector<int64_t>>());
    EXPECT_EQ(sample["keypoints"].size(0), labels.size(0));
    expect_nearly_the_same_mask(sample["masks"], item.at("masks"));
  }
  for (const Json& item : golden.at("clamped")) expect_golden_numbers(item, true);
}

/// Squares of one pixel and their middles, which are also in the image and the mask: the pixel has the
/// square's number. Boxes and the corner that keypoints are measured from are torchvision's.
struct Marked {
  Sample sample;
  std::vector<std::array<int64_t, 2>> places;  // row, column
};

Marked marked_sample(int64_t side) {
  Marked marked{.places = {{3, 4}, {10, 15}, {16, 7}, {9, 9}}};
  at::Tensor image = torch::zeros({3, side, side}, torch::kByte);
  std::vector<double> boxes, points;
  for (size_t i = 0; i < marked.places.size(); ++i) {
    const auto [row, column] = marked.places[i];
    image.narrow(1, row - 1, 3).narrow(2, column - 1, 3).fill_(static_cast<int64_t>(60 * (i + 1)));
    const auto x = static_cast<double>(column), y = static_cast<double>(row);
    boxes.insert(boxes.end(), {x - 1, y - 1, x + 2, y + 2});
    points.insert(points.end(), {x, y});
  }
  marked.sample.tensors = {{"data", image},
                           {"boxes", torch::tensor(boxes, torch::kDouble).view({-1, 4})},
                           {"mask", image[0].clone()},
                           {"keypoints", torch::tensor(points, torch::kDouble).view({-1, 2})}};
  return marked;
}

/// One that moves pixels, with parameters that keep most of the marks inside.
const std::vector<std::string> kMovingChains{
    "random_horizontal_flip:p=1",
    "random_vertical_flip:p=1",
    "random_rotation:degrees=40",
    "random_rotation:degrees=40,expand=true",
    "random_affine:degrees=20,translate=[0.1,0.1],scale=[0.9,1.1],shear=5",
    "random_perspective:p=1,distortion_scale=0.2,interpolation=nearest",
    "random_crop:padding=3",
    "random_resized_crop:size=40,scale=[0.8,1],interpolation=nearest",
    "center_crop:size=[18,27]",
    "pad:padding=[1,2,3,4]",
    "resize:size=[42,63],interpolation=nearest",
    "one_of(random_horizontal_flip|random_rotation:degrees=20|random_crop:padding=2):p=1",
    "some_of(random_vertical_flip:p=1|pad:padding=2|random_affine:degrees=15):n=2",
    "fit_images:height=42,width=63"};

TEST(Targets, MoveTogetherWithTheImageInEachStepThatMovesPixels) {
  for (const std::string& chain : kMovingChains) {
    for (int64_t index = 0; index < 6; ++index) {
      SCOPED_TRACE(concat(chain, " of sample ", index));
      Marked marked = marked_sample(21);
      Sample& sample = marked.sample;
      Rng rng(8, 1, index);
      if (chain.starts_with("fit_images")) {
        transforms()
            .at("fit_images")
            .make({{"height", "42"}, {"width", "63"}},
                  {.name = "one", .sample_shape = {3, 21, 21}, .dtype = at::kByte})
            ->apply(sample, rng);
      } else {
        go_through(chain, sample, rng);
      }
      const at::Tensor image = sample["data"], mask = sample["mask"];
      const auto height = image.size(1), width = image.size(2);
      ASSERT_EQ(mask.sizes(), at::IntArrayRef({height, width}));
      if (!chain.starts_with("fit_images")) {
        EXPECT_TRUE(mask.equal(image[0])) << "the mask is not where the image is";
      }
      int inside = 0;
      for (size_t i = 0; i < marked.places.size(); ++i) {
        const auto number = static_cast<int64_t>(60 * (i + 1));
        const at::Tensor box = sample["boxes"][static_cast<int64_t>(i)];
        const double x = (box[0].item<double>() + box[2].item<double>()) / 2;
        const double y = (box[1].item<double>() + box[3].item<double>()) / 2;
        if (x < 1 || y < 1 || x >= static_cast<double>(width) - 1 ||
            y >= static_cast<double>(height) - 1)
          continue;
        ++inside;
        EXPECT_EQ(mask[static_cast<int64_t>(y)][static_cast<int64_t>(x)].item<int64_t>(), number);
        const at::Tensor point = sample["keypoints"][static_cast<int64_t>(i)];
        // 1.5 pixels: torchvision's keypoints are corners when turned, and middles when flipped.
        EXPECT_NEAR(point[0].item<double>(), x, 1.5);
        EXPECT_NEAR(point[1].item<double>(), y, 1.5);
      }
      EXPECT_GE(inside, 1);
    }
  }
}

TEST(Targets, StayWhereTheyAreInStepsThatChangeColours) {
  for (const char* chain : {"color_jitter:brightness=0.5",
                            "random_invert:p=1",
                            "normalize:mean=1,std=2",
                            "to_dtype:dtype=float32",
                            "random_erasing:p=1",
                            "grayscale",
                            "gaussian_blur:kernel_size=3",
                            "random_equalize:p=1"}) {
    Sample sample = marked_sample(21).sample;
    const Sample before = sample;
    Rng rng(1, 0, 0);
    go_through(chain, sample, rng);
    for (const char* name : {"boxes", "mask", "keypoints"})
      EXPECT_TRUE(sample[name].is_same(before[name])) << chain << ", " << name;
  }
}

TEST(Targets, AreRefusedWhereNobodyKnowsWhereTheyGo) {
  for (const char* chain : {"rand_augment", "trivial_augment_wide", "auto_augment"}) {
    Sample sample = marked_sample(21).sample;
    Rng rng(1, 0, 0);
    EXPECT_THAT(test::error_of([&] { go_through(chain, sample, rng); }),
                HasSubstr(concat(chain, " of a sample with boxes, masks or keypoints")));
  }
}

std::string refused(const std::string& name, const at::Tensor& tensor, const std::string& chain) {
  Sample sample{.tensors = {{"data", torch::zeros({3, 8, 9}, torch::kByte)}, {name, tensor}}};
  Rng rng(1, 0, 0);
  return test::error_of([&] { go_through(chain, sample, rng); });
}

TEST(Targets, AreRefusedByNameWhereTheyAreNone) {
  const std::string flip = "random_horizontal_flip:p=1";
  EXPECT_THAT(refused("boxes", torch::zeros({2, 5}), flip),
              HasSubstr("tensor \"boxes\" of a sample: boxes are [N, 4] of float32 or float64"));
  EXPECT_THAT(refused("boxes_xywhr", torch::zeros({2, 4}), flip), HasSubstr("[N, 5]"));
  EXPECT_THAT(refused("boxes", torch::zeros({2, 4}, torch::kLong), flip), HasSubstr("of int64"));
  EXPECT_THAT(refused("keypoints", torch::zeros({2, 3}), flip),
              HasSubstr("keypoints are [..., 2]"));
  EXPECT_THAT(refused("mask", torch::zeros({9, 8}), flip), HasSubstr("the image's size, 8 x 9"));
  EXPECT_THAT(refused("boxes", torch::zeros({2, 4}), "pad:padding=1,padding_mode=edge"),
              HasSubstr("border \"edge\" of a sample: with boxes, the border is constant"));
  EXPECT_EQ(refused("boxes_of_others", torch::zeros({3}), flip), test::kNoError);
}

TEST(Targets, MayBeMasksOfAnyNumbersAndNoBoxesAtAll) {
  Sample sample{.tensors = {{"data", torch::zeros({1, 4, 6}, torch::kByte)},
                            {"boxes", torch::zeros({0, 4})},
                            {"masks", torch::zeros({0, 4, 6}, torch::kBool)},
                            {"keypoints", torch::zeros({0, 3, 2})},
                            {"labels", torch::zeros({0}, torch::kLong)}}};
  Rng rng(1, 0, 0);
  go_through(
      "random_affine:degrees=20|resize:size=[8,9]|random_crop:size=5|random_perspective:p=1|filter_"
      "boxes",
      sample,
      rng);
  EXPECT_EQ(sample["boxes"].sizes(), at::IntArrayRef({0, 4}));
  EXPECT_EQ(sample["masks"].sizes(), at::IntArrayRef({0, 5, 5}));
  EXPECT_EQ(sample["masks"].scalar_type(), at::kBool);
  EXPECT_EQ(sample["keypoints"].sizes(), at::IntArrayRef({0, 3, 2}));
  for (const at::ScalarType dtype : {at::kBool, at::kShort, at::kLong, at::kFloat, at::kDouble}) {
    const at::Tensor mask = torch::arange(24).remainder(2).view({4, 6}).to(dtype);
    Sample one{.tensors = {{"data", torch::zeros({1, 4, 6}, torch::kByte)}, {"mask", mask}}};
    go_through("random_horizontal_flip:p=1|random_rotation:degrees=[180,180]", one, rng);
    EXPECT_TRUE(one["mask"].equal(mask.flip(-2))) << c10::toString(dtype);
  }
}

at::Tensor filtered(const std::string& name, const at::Tensor& boxes, const std::string& options) {
  Sample sample{.tensors = {{"data", torch::zeros({1, 10, 20}, torch::kByte)},
                            {name, boxes},
                            {"labels", torch::arange(boxes.size(0))}}};
  Rng rng(1, 0, 0);
  go_through("filter_boxes:" + options, sample, rng);
  return sample["labels"];
}

TEST(FilterBoxes, KnowsHowMuchOfEachBoxIsLeft) {
  const at::Tensor boxes = torch::tensor(  // all, three quarters, half, a quarter of it, none
                               {2.0,  2.0, 6.0,  6.0,  -1.0, 2.0, 3.0,  6.0, 18.0, 2.0,
                                22.0, 6.0, -2.0, -2.0, 2.0,  2.0, 21.0, 0.0, 25.0, 4.0})
                               .view({5, 4});
  EXPECT_TRUE(filtered("boxes", boxes, "min_visibility=0.8").equal(torch::tensor({0})));
  EXPECT_TRUE(filtered("boxes", boxes, "min_visibility=0.75").equal(torch::tensor({0, 1})));
  EXPECT_TRUE(filtered("boxes", boxes, "min_visibility=0.5").equal(torch::tensor({0, 1, 2})));
  EXPECT_TRUE(filtered("boxes", boxes, "min_size=1").equal(torch::tensor({0, 1, 2, 3})));
  EXPECT_TRUE(filtered("boxes", boxes, "min_size=2.5").equal(torch::tensor({0, 1})));
  EXPECT_TRUE(filtered("boxes", boxes, "min_area=5").equal(torch::tensor({0, 1, 2})));
}

TEST(FilterBoxes, MeasuresThePartOfARotatedBoxThatIsInside) {
  // A square of side 4 on a corner: whole, its left half outside, a quarter of it inside.
  const at::Tensor boxes =
      torch::tensor({10.0, 5.0, 4.0, 4.0, 45.0, 0.0, 5.0, 4.0, 4.0, 45.0, 0.0, 0.0, 4.0, 4.0, 45.0})
          .view({3, 5});
  EXPECT_TRUE(filtered("boxes_cxcywhr", boxes, "min_visibility=0.51").equal(torch::tensor({0})));
  EXPECT_TRUE(filtered("boxes_cxcywhr", boxes, "min_visibility=0.49").equal(torch::tensor({0, 1})));
  EXPECT_TRUE(
      filtered("boxes_cxcywhr", boxes, "min_visibility=0.24").equal(torch::tensor({0, 1, 2})));
}

TEST(FilterBoxes, TakesTheRowsThatAreNamed) {
  Sample sample{
      .tensors = {{"data", torch::zeros({1, 10, 20}, torch::kByte)},
                  {"boxes", torch::tensor({30.0, 2.0, 36.0, 6.0, 1.0, 1.0, 5.0, 5.0}).view({2, 4})},
                  {"labels", torch::tensor({4, 5})},
                  {"area", torch::tensor({24.0, 16.0})},
                  {"others", torch::tensor({1, 2, 3})}}};
  Rng rng(1, 0, 0);
  Sample again = sample, wrong = sample;
  go_through("filter_boxes:rows=[labels,area]", sample, rng);
  EXPECT_TRUE(sample["labels"].equal(torch::tensor({5})));
  EXPECT_TRUE(sample["area"].equal(torch::tensor({16.0})));
  EXPECT_EQ(sample["others"].size(0), 3);
  go_through("filter_boxes:rows=none", again, rng);
  EXPECT_EQ(again["boxes"].size(0), 1);
  EXPECT_EQ(again["labels"].size(0), 2);
  EXPECT_THAT(test::error_of([&] { go_through("filter_boxes:rows=[others]", wrong, rng); }),
              HasSubstr("it has a row for each of 2 boxes (got [3] of int64)"));
}

}  // namespace
}  // namespace muster::data
