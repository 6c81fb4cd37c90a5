// The files of tests/golden/images/input, sorted into folders: what Pillow and torchvision make of them
// stands in tests/golden/images.
#include "muster/data/sets/image_folder.h"

#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/loader/loader.h"
#include "muster/data/samplers/random.h"
#include "muster/data/sets/file_samples.h"
#include "muster/data/sets/subset_dataset.h"
#include "muster/data/transform/transformed.h"
#include "muster/formats/crc32.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/golden.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string tensor_sum(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  return formats::crc32_text(
      formats::crc32_of({static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()}));
}

/// Classes apple, pear and plum of two images each.
class ImageFolderTest : public ::testing::Test {
 protected:
  ImageFolderTest() {
    put("apple/0.jpg", "colour_420.jpg");
    put("apple/1.png", "palette8.png");
    put("pear/0.jpg", "grey.jpg");
    put("pear/1.jpg", "cmyk.jpg");
    put("plum/0.png", "colour_alpha8.png");
    put("plum/1.jpg", "colour_422.jpg");
  }

  static fs::path input(const std::string& file) {
    return test::source_path("tests/golden/images/input/" + file);
  }
  void put(const fs::path& to, const std::string& file) {
    fs::create_directories((root() / to).parent_path());
    fs::copy_file(input(file), root() / to, fs::copy_options::overwrite_existing);
  }
  void damage(const fs::path& file) {
    fs::resize_file(root() / file, fs::file_size(root() / file) / 2);
  }
  const fs::path& root() const { return folder_.path(); }

  test::Folder folder_;
};

std::vector<int64_t> all_of_folder(const Dataset& dataset) {
  std::vector<int64_t> indices(static_cast<size_t>(dataset.size()));
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
  return indices;
}

TEST_F(ImageFolderTest, SaysItsClassesAndThatSizesDiffer) {
  const ImageFolder images(root());
  EXPECT_EQ(images.size(), 6);
  const DataSpec spec = images.spec();
  EXPECT_EQ(spec.classes, 3);
  EXPECT_THAT(spec.class_names, ElementsAre("apple", "pear", "plum"));
  EXPECT_THAT(spec.sample_shape, ElementsAre(3, 0, 0));
  EXPECT_TRUE(spec.is_image());
  EXPECT_FALSE(spec.has_size());
  EXPECT_EQ(spec.dtype, at::kFloat);
  EXPECT_TRUE(images.targets().equal(torch::tensor({0, 0, 1, 1, 2, 2})));
  EXPECT_TRUE(ImageFolder(root(), {.size = 8}).spec().has_size());
}

TEST_F(ImageFolderTest, PixelsArePillowsAsTheyAre) {
  const ImageFolder images(root());
  const Json golden = test::read_golden("images");
  const auto bytes = images.before_normalising();
  const std::vector<Sample> samples = bytes->samples(all_of_folder(images));
  const char* names[] = {"colour_420.jpg",
                         "palette8.png",
                         "grey.jpg",
                         "cmyk.jpg",
                         "colour_alpha8.png",
                         "colour_422.jpg"};
  for (size_t i = 0; i < samples.size(); ++i) {
    const at::Tensor& image = samples[i]["data"];
    EXPECT_EQ(image.scalar_type(), at::kByte);
    for (const Json& entry : golden.at("images")) {
      if (entry.at("file") != names[i]) continue;
      EXPECT_EQ(image.size(1), entry.at("height"));
      EXPECT_EQ(image.size(2), entry.at("width"));
      EXPECT_EQ(tensor_sum(image.permute({1, 2, 0})), entry.at("crc32").get<std::string>())
          << names[i];
    }
    const at::Tensor floats =
        images.samples(std::vector<int64_t>{static_cast<int64_t>(i)})[0]["data"];
    const auto per_channel = [](std::initializer_list<float> values) {
      return torch::tensor(std::vector<float>(values)).view({3, 1, 1});
    };
    EXPECT_TRUE(floats.equal(image.to(torch::kFloat)
                                 .div(255)
                                 .sub(per_channel({0.485F, 0.456F, 0.406F}))
                                 .div(per_channel({0.229F, 0.224F, 0.225F}))));
  }
}

// Of torchvision on a processor with AVX2; without, it resizes by floats, and Muster does not.
TEST_F(ImageFolderTest, OfOneSizeTheyAreTorchvisionsResizedAndCentred) {
  const Json golden = test::read_golden("images", "sized.json");
  for (const Json& entry : golden.at("sized")) {
    const test::Folder folder;
    fs::create_directory(folder.path() / "one");
    const auto file = entry.at("file").get<std::string>();
    fs::copy_file(input(file), folder.path() / "one" / file);
    const ImageFolder images(folder.path(), {.size = entry.at("size").get<int64_t>()});
    const std::vector<int64_t> first{0};
    SCOPED_TRACE(entry.dump());
    EXPECT_EQ(tensor_sum(images.before_normalising()->get(first)["data"]),
              entry.at("crc32").get<std::string>());
    EXPECT_EQ(tensor_sum(images.get(first)["data"]),
              entry.at("normalized_crc32").get<std::string>());
  }
}

TEST_F(ImageFolderTest, BatchesAreTheSameForAnyNumberOfWorkers) {
  const auto images = std::make_shared<ImageFolder>(root(), ImageFolderOptions{.size = 9});
  std::vector<std::string> sums;
  for (const int64_t workers : {0, 1, 3}) {
    Loader loader(images,
                  {.batch_size = 4, .workers = workers, .seed = 5},
                  std::make_unique<RandomSampler>(images->size(), RandomSamplerOptions{.seed = 3}));
    std::string all;
    for (const Batch& batch : loader.epoch(1)) {
      EXPECT_EQ(batch["target"].scalar_type(), at::kLong);
      all += tensor_sum(batch["data"]) + tensor_sum(batch["target"]);
    }
    sums.push_back(all);
  }
  EXPECT_EQ(sums[1], sums[0]);
  EXPECT_EQ(sums[2], sums[0]);
}

TEST_F(ImageFolderTest, AChainThatMakesOneSizeTakesImagesOfAnySize) {
  const auto images = std::make_shared<ImageFolder>(root());
  const auto chained = transformed(images, "random_horizontal_flip|fit_images:height=12,width=10");
  EXPECT_THAT(chained->spec().sample_shape, ElementsAre(3, 12, 10));
  const Batch batch = chained->get(all_of_folder(*images));
  EXPECT_EQ(batch["data"].sizes(), (at::IntArrayRef{6, 3, 12, 10}));
  EXPECT_EQ(batch["data"].scalar_type(), at::kFloat);
  const auto part = std::make_shared<SubsetDataset>(images, std::vector<int64_t>{4, 1});
  const auto of_part = transformed(part, "fit_images:height=12,width=10");
  EXPECT_TRUE(of_part->get(std::vector<int64_t>{1})["target"].equal(torch::tensor({0})));
}

TEST_F(ImageFolderTest, StepsThatCutOutOneSizeTakeImagesOfAnySize) {
  const auto images = std::make_shared<ImageFolder>(root());
  for (const char* chain : {"center_crop:size=4",
                            "resize:size=[4,4]",
                            "random_resized_crop:size=4",
                            "random_crop:size=4,pad_if_needed=true"}) {
    const auto chained = transformed(images, chain);
    EXPECT_THAT(chained->spec().sample_shape, ElementsAre(3, 4, 4)) << chain;
    EXPECT_EQ(chained->get(all_of_folder(*images))["data"].sizes(), (at::IntArrayRef{6, 3, 4, 4}));
  }
  EXPECT_FALSE(transformed(images, "resize:size=4")->spec().has_size()) << "its shorter side";
}

TEST_F(ImageFolderTest, StepsThatNeedASizeSayThatThereIsNone) {
  const auto images = std::make_shared<ImageFolder>(root());
  const std::string text = test::refusal_of([&] { transformed(images, "fit_images:height=4"); });
  EXPECT_THAT(text, HasSubstr("its images are of one size, and these are not"));
  EXPECT_THAT(text, HasSubstr("random_resized_crop:size=224"));
  EXPECT_THAT(test::error_of([&] {
                images->get(std::vector<int64_t>{0, 1});
              }),
              HasSubstr("all samples have one dtype and shape"));
}

TEST_F(ImageFolderTest, ABadFileIsNamedWithItsSample) {
  damage("pear/0.jpg");
  const auto images = std::make_shared<ImageFolder>(root(), ImageFolderOptions{.size = 9});
  EXPECT_EQ(images->get(std::vector<int64_t>{0, 1}).size(), 2);
  const std::string text = test::refusal_of(
      [&] {
        images->get(std::vector<int64_t>{1, 2});
      },
      ErrorKind::kEnvironment);
  EXPECT_THAT(text, HasSubstr("sample 2 of"));
  EXPECT_THAT(text, HasSubstr("damaged JPEG file " + (root() / "pear/0.jpg").string()));
  EXPECT_THAT(text, HasSubstr("cut short"));
  EXPECT_THAT(text, HasSubstr("bad_files=skip or substitute"));
}

TEST_F(ImageFolderTest, BadFilesAreSkippedAndNamedWhenAskedTo) {
  damage("pear/0.jpg");
  std::ofstream(root() / "apple/1.png") << "GIF89a";
  const ImageFolder images(root(), {.size = 9, .bad_files = BadFiles::kSkip});
  EXPECT_EQ(images.size(), 4);
  EXPECT_TRUE(images.targets().equal(torch::tensor({0, 1, 2, 2})));
  EXPECT_EQ(images.files().files[1].path, "pear/1.jpg");
  ASSERT_EQ(images.remarks().size(), 1U);
  EXPECT_THAT(images.remarks()[0], HasSubstr("2 of 6 files"));
  EXPECT_THAT(images.remarks()[0], HasSubstr("apple/1.png"));
  EXPECT_THAT(images.remarks()[0], HasSubstr("pear/0.jpg"));
  EXPECT_EQ(images.get(all_of_folder(images)).size(), 4);
  for (const char* file : {"apple/0.jpg", "pear/1.jpg", "plum/0.png", "plum/1.jpg"}) damage(file);
  EXPECT_THAT(test::refusal_of([&] { ImageFolder(root(), {.bad_files = BadFiles::kSkip}); },
                               ErrorKind::kEnvironment),
              HasSubstr("none of 6"));
}

TEST_F(ImageFolderTest, TheNextGoodFileStandsInForABadOne) {
  damage("plum/1.jpg");
  damage("apple/0.jpg");
  const ImageFolder images(root(), {.size = 9, .bad_files = BadFiles::kSubstitute});
  const Batch batch = images.get(all_of_folder(images));
  EXPECT_TRUE(batch["target"].equal(torch::tensor({0, 0, 1, 1, 2, 0})))
      << "the last one's stand-in is the second";
  EXPECT_TRUE(batch["data"][5].equal(batch["data"][1]));
  EXPECT_TRUE(batch["data"][0].equal(batch["data"][1]));
  EXPECT_EQ(batch.indices, all_of_folder(images));
}

TEST_F(ImageFolderTest, FilesThatOthersStandInForAreNamedOnceTheyWereAskedFor) {
  damage("plum/1.jpg");
  damage("apple/0.jpg");
  const ImageFolder images(root(), {.size = 9, .bad_files = BadFiles::kSubstitute});
  EXPECT_TRUE(images.remarks().empty());
  images.get(std::vector<int64_t>{0, 1});
  for (int twice = 0; twice < 2; ++twice) images.get(all_of_folder(images));
  EXPECT_THAT(images.remarks(),
              ElementsAre(HasSubstr("could not be decoded, and others stood in for them: "
                                    "apple/0.jpg, plum/1.jpg")));
  EXPECT_THAT(images.remarks()[0], HasSubstr("2 of 6 files in " + root().string()));
}

TEST_F(ImageFolderTest, SamplesAreCalledByTheirFilesWithoutThoseThatOthersStandInFor) {
  damage("pear/0.jpg");
  damage("apple/0.jpg");
  const auto images = std::make_shared<ImageFolder>(
      root(), ImageFolderOptions{.size = 9, .bad_files = BadFiles::kSubstitute});
  const auto some = std::make_shared<SubsetDataset>(images, std::vector<int64_t>{5, 2, 1});
  const ReadableSamples left = without_substitutes(some);
  ASSERT_EQ(left.samples->size(), 2);
  EXPECT_TRUE(left.samples->targets().equal(torch::tensor({2, 0})));
  EXPECT_THAT(left.remarks, ElementsAre(HasSubstr("1 of 3 files of ")));
  EXPECT_THAT(left.remarks[0], HasSubstr("pear/0.jpg"));
  const auto name = file_names(left.samples);
  EXPECT_EQ(name(0), "plum/1.jpg");
  EXPECT_EQ(name(1), "apple/1.png");
  const auto bad = std::make_shared<SubsetDataset>(images, std::vector<int64_t>{0, 2});
  EXPECT_THAT(
      test::refusal_of([&] { without_substitutes(bad); }, ErrorKind::kEnvironment),
      HasSubstr("one of its files can be decoded (got none of 2: apple/0.jpg, pear/0.jpg)"));
  const auto raising = std::make_shared<ImageFolder>(root(), ImageFolderOptions{.size = 9});
  EXPECT_EQ(without_substitutes(raising).samples, raising) << "their errors come as they are read";
}

// The samples were listed, and so its absence is no wrong use.
TEST_F(ImageFolderTest, AFileThatIsGoneIsAnErrorOfTheEnvironment) {
  const ImageFolder images(root(), {.size = 9});
  fs::remove(root() / "pear/0.jpg");
  fs::remove(root() / "pear/1.jpg");
  fs::create_symlink(root() / "nowhere", root() / "pear/1.jpg");
  for (const int64_t sample : {2, 3}) {
    EXPECT_THAT(test::refusal_of([&] { images.get(std::vector<int64_t>{sample}); },
                                 ErrorKind::kEnvironment),
                HasSubstr("no such file"));
  }
}

TEST_F(ImageFolderTest, AnotherSplitCountsTheClassesOfTheFirst) {
  const std::vector<std::string> classes{"apple", "banana", "pear", "plum"};
  const ImageFolder images(root(), {.classes = classes});
  EXPECT_EQ(images.spec().class_names, classes);
  EXPECT_TRUE(images.targets().equal(torch::tensor({0, 0, 2, 2, 3, 3})));
  EXPECT_THAT(test::refusal_of([&] {
                ImageFolder(root(), {.classes = {"apple", "peer", "plum"}});
              }),
              HasSubstr("did you mean \"peer\"?"));
}

TEST_F(ImageFolderTest, TheFingerprintHangsOnNamesClassesAndBytes) {
  const uint32_t before = ImageFolder(root()).fingerprint();
  EXPECT_EQ(ImageFolder(root(), {.size = 4}).fingerprint(), before);
  put("apple/0.jpg", "colour_444.jpg");
  const uint32_t other_bytes = ImageFolder(root()).fingerprint();
  EXPECT_NE(other_bytes, before);
  fs::rename(root() / "plum/0.png", root() / "apple/2.png");
  EXPECT_NE(ImageFolder(root()).fingerprint(), other_bytes);
}

TEST_F(ImageFolderTest, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_THAT(test::refusal_of([&] { ImageFolder(root(), {.size = -1}); }), HasSubstr("(got -1)"));
  EXPECT_THAT(
      test::refusal_of([&] { ImageFolder(root(), {.mean = {0.5}, .standard_deviation = {0.5}}); }),
      HasSubstr("three numbers each"));
  EXPECT_THAT(test::refusal_of([&] {
                ImageFolder(root(), {.standard_deviation = {0.5, 0, 0.5}});
              }),
              HasSubstr("above 0"));
  EXPECT_THAT(test::refusal_of([&] {
                ImageFolder(root(), {.mean = {0.5, NAN, 0.5}, .standard_deviation = {1, 1, 1}});
              }),
              HasSubstr("all finite"));
}

// Both JPEGs of apple and plum are 37 x 29: at size 9 they are decoded at 1/2, 15 x 19.
TEST_F(ImageFolderTest, DecodesSmallerWhereItIsTold) {
  const ImageFolder exact(root(), {.size = 9});
  const ImageFolder fast(root(), {.size = 9, .decoding = {.least_side = 9}});
  EXPECT_TRUE(exact.remarks().empty());
  ASSERT_EQ(fast.remarks().size(), 1U);
  EXPECT_THAT(fast.remarks()[0], HasSubstr("(decode=fast)"));
  EXPECT_EQ(fast.fingerprint(), exact.fingerprint());
  const std::vector<int64_t> all = all_of_folder(exact);
  const auto pixels = [&](const ImageFolder& images) {
    return images.before_normalising()->get(all)["data"].to(at::kInt);
  };
  const at::Tensor whole = pixels(exact), small = pixels(fast);
  ASSERT_EQ(whole.sizes(), small.sizes());
  EXPECT_TRUE(whole[1].equal(small[1])) << "a PNG";
  EXPECT_FALSE(whole[0].equal(small[0]));
  const auto file = formats::read_image(root() / "apple/0.jpg", {.least_side = 9});
  ASSERT_EQ(file.height, 15);
  ASSERT_EQ(file.width, 19);
  const at::Tensor decoded =
      torch::from_blob(file.pixels.get(), {15, 19, 3}, torch::kByte).permute({2, 0, 1});
  const at::Tensor resized =
      at::_upsample_bilinear2d_aa(decoded.unsqueeze(0), {9, 9 * 19 / 15}, /*align_corners=*/false);
  EXPECT_TRUE(resized.squeeze(0).narrow(2, 1, 9).to(at::kInt).equal(small[0]));
}

// Parts of images are cut from whole ones.
TEST_F(ImageFolderTest, OfOtherSizesIsNotCutWhereItDecodesSmaller) {
  EXPECT_NE(ImageFolder(root()).before_normalising()->image_parts(), nullptr);
  const ImageFolder fast(root(), {.decoding = {.least_side = 9}});
  EXPECT_EQ(fast.before_normalising()->image_parts(), nullptr);
}

}  // namespace
}  // namespace muster::data
