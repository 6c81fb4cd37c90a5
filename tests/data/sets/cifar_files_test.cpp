// CIFAR files of a few records, in the layout of the archives. Their records are tested in tests/formats.
#include "muster/data/sets/cifar_files.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class CifarFiles : public ::testing::Test {
 protected:
  /// Records of these labels; the pixels of each are its number in the file, and its plane's.
  void put(const std::string& name, const std::vector<std::vector<int>>& labels) {
    fs::create_directories((folder_.path() / name).parent_path());
    std::ofstream file(folder_.path() / name, std::ios::binary);
    for (size_t record = 0; record < labels.size(); ++record) {
      for (const int label : labels[record]) file.put(static_cast<char>(label));
      for (int plane = 0; plane < 3; ++plane)
        file << std::string(1024, static_cast<char>(record * 10 + static_cast<size_t>(plane)));
    }
  }
  void put_text(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path() / name) << text;
  }

  std::shared_ptr<const ImageDataset> read(CifarLabels labels, Split split = Split::kTrain) {
    return read_cifar_files(folder_.path(), split, labels, {.name = "small"}, "unpack it");
  }

  test::Folder folder_;
};

TEST_F(CifarFiles, TheTrainingSplitIsFiveBatchesInTheirOrder) {
  for (int i = 1; i <= 5; ++i)
    put("cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin", {{i}, {9 - i}});
  put("cifar-10-batches-bin/test_batch.bin", {{7}});
  put_text("cifar-10-batches-bin/batches.meta.txt",
           "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
  const auto train = read(CifarLabels::kTen);
  EXPECT_TRUE(train->labels().equal(torch::tensor({1, 8, 2, 7, 3, 6, 4, 5, 5, 4})));
  EXPECT_THAT(train->spec().sample_shape, ElementsAre(3, 32, 32));
  EXPECT_THAT(train->spec().class_names, SizeIs(10));
  EXPECT_EQ(train->spec().class_names[9], "truck");
  EXPECT_EQ(train->images()[3][2][31][31].item<int>(), 12)
      << "the second record of the second file, blue";
  EXPECT_TRUE(read(CifarLabels::kTen, Split::kTest)->labels().equal(torch::tensor({7})));
}

TEST_F(CifarFiles, OfAHundredClassesEitherLabelCanBeTheClass) {
  put("train.bin", {{19, 99}, {3, 0}});
  EXPECT_TRUE(read(CifarLabels::kHundredFine)->labels().equal(torch::tensor({99, 0})));
  EXPECT_EQ(read(CifarLabels::kHundredFine)->spec().classes, 100);
  EXPECT_TRUE(read(CifarLabels::kHundredCoarse)->labels().equal(torch::tensor({19, 3})));
  EXPECT_EQ(read(CifarLabels::kHundredCoarse)->spec().classes, 20);
  EXPECT_THAT(read(CifarLabels::kHundredCoarse)->spec().class_names, SizeIs(0));
}

TEST_F(CifarFiles, MissingFilesAndWrongNamesAreRefused) {
  EXPECT_THAT(test::refusal_of([&] { read(CifarLabels::kTen); }),
              HasSubstr("data_batch_1.bin\nhint: unpack it"));
  put("test.bin", {{1, 2}});
  put_text("fine_label_names.txt", "apple\n");
  EXPECT_THAT(test::refusal_of([&] { read(CifarLabels::kHundredFine, Split::kTest); },
                               ErrorKind::kEnvironment),
              HasSubstr("a line for each of 100 classes (got 1)"));
}

}  // namespace
}  // namespace muster::data
