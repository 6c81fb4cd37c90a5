// A chain that begins with a cut reads no more of a file than it looks at, and nobody can tell by its
// samples.
#include "muster/data/image_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/sets/image_folder.h"
#include "muster/data/sets/subset_dataset.h"
#include "muster/data/transform/transformed.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/golden.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kChain = "random_resized_crop:size=13,scale=[0.1,0.9]|random_horizontal_flip";

class ImagePartsTest : public ::testing::Test {
 protected:
  ImagePartsTest() {
    int number = 0;
    for (const char* file : {"colour_420.jpg",
                             "colour_422.jpg",
                             "grey.jpg",
                             "cmyk.jpg",
                             "palette8.png",
                             "colour_alpha8.png"}) {
      const fs::path to = root() / (number % 2 == 0 ? "even" : "odd") / std::to_string(number);
      fs::create_directories(to.parent_path());
      fs::copy_file(test::source_path("tests/golden/images/input/" + std::string(file)),
                    to.string() + fs::path(file).extension().string());
      ++number;
    }
  }
  const fs::path& root() const { return folder_.path(); }

  test::Folder folder_;
};

/// Every sample of some epochs, as a batch each.
std::vector<at::Tensor> epochs_of(const Dataset& dataset) {
  std::vector<int64_t> all(static_cast<size_t>(dataset.size()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  std::vector<at::Tensor> seen;
  for (int64_t epoch = 0; epoch < 20; ++epoch)
    seen.push_back(dataset.get(all, {.seed = 7, .epoch = epoch})["data"]);
  return seen;
}

TEST_F(ImagePartsTest, AreToTheBitWhatWholeImagesGive) {
  const auto parts = std::make_shared<ImageFolder>(root());
  // Where bad files have substitutes, each is decoded whole.
  const auto whole =
      std::make_shared<ImageFolder>(root(), ImageFolderOptions{.bad_files = BadFiles::kSubstitute});
  ASSERT_NE(parts->before_normalising()->image_parts(), nullptr);
  ASSERT_EQ(whole->before_normalising()->image_parts(), nullptr);
  const auto seen = epochs_of(*transformed(parts, kChain));
  const auto expected = epochs_of(*transformed(whole, kChain));
  for (size_t epoch = 0; epoch < seen.size(); ++epoch)
    EXPECT_TRUE(seen[epoch].equal(expected[epoch])) << epoch;
}

TEST_F(ImagePartsTest, OfASubsetAreThoseOfItsNumbers) {
  const auto parts = std::make_shared<ImageFolder>(root());
  const auto whole =
      std::make_shared<ImageFolder>(root(), ImageFolderOptions{.bad_files = BadFiles::kSubstitute});
  const auto subset = [](std::shared_ptr<const Dataset> of) {
    return std::make_shared<SubsetDataset>(std::move(of), std::vector<int64_t>{4, 0, 3});
  };
  ASSERT_NE(subset(parts)->before_normalising()->image_parts(), nullptr);
  const auto seen = epochs_of(*transformed(subset(parts), kChain));
  const auto expected = epochs_of(*transformed(subset(whole), kChain));
  for (size_t epoch = 0; epoch < seen.size(); ++epoch)
    EXPECT_TRUE(seen[epoch].equal(expected[epoch])) << epoch;
}

TEST_F(ImagePartsTest, AreReadOnlyForAChainThatBeginsWithACut) {
  const auto images = std::make_shared<ImageFolder>(root());
  const auto flipped = transformed(images, "random_horizontal_flip|random_resized_crop:size=8");
  EXPECT_EQ(epochs_of(*flipped)[0].size(3), 8);
  EXPECT_EQ(ImageFolder(root(), {.size = 8}).before_normalising()->image_parts(), nullptr);
}

TEST_F(ImagePartsTest, AFileThatWasCutShortIsRefusedWhateverPartIsWanted) {
  const fs::path file = root() / "even" / "0.jpg";
  fs::resize_file(file, fs::file_size(file) - 40);
  const auto images = transformed(std::make_shared<ImageFolder>(root()), kChain);
  for (int64_t epoch = 0; epoch < 10; ++epoch) {
    const SampleContext context{.seed = 7, .epoch = epoch};
    EXPECT_THAT(test::error_of([&] { images->get(std::vector<int64_t>{0}, context); }),
                AllOf(HasSubstr("sample 0"), HasSubstr("0.jpg"), HasSubstr("cut short")))
        << epoch;
  }
}

}  // namespace
}  // namespace muster::data
