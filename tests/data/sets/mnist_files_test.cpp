#include "muster/data/sets/mnist_files.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "muster/base/error.h"

#include "tests/formats/idx_files.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

DataSpec small_spec() { return {.name = "small", .sample_shape = {1, 3, 4}, .classes = 10}; }

class MnistFiles : public ::testing::Test {
 protected:
  MnistFiles() {
    fs::create_directories(folder_);
    put("train-images-idx3-ubyte", formats::idx_file({20, 3, 4}));
    put("train-labels-idx1-ubyte", formats::idx_file({20}, 10));
  }
  ~MnistFiles() override { fs::remove_all(folder_); }

  void put(const std::string& name, const formats::ByteVector& bytes) {
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

  std::shared_ptr<const ImageDataset> read(Split split = Split::kTrain) {
    return read_mnist_files(folder_, split, small_spec(), "buy it");
  }

  std::string refusal(ErrorKind kind, Split split = Split::kTrain) {
    try {
      read(split);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      EXPECT_FALSE(error.text().hint.empty());
      EXPECT_THAT(error.what(), HasSubstr(folder_.string()));
      return error.what();
    }
    return "nothing was thrown";
  }

  fs::path folder_ = fs::temp_directory_path() / ("muster-mnist-" + std::to_string(::getpid()));
};

TEST_F(MnistFiles, AreReadPlainOrCompressed) {
  const auto plain = read();
  fs::remove(folder_ / "train-images-idx3-ubyte");
  put("train-images-idx3-ubyte.gz", formats::gzip(formats::idx_file({20, 3, 4})));
  const auto packed = read();
  EXPECT_EQ(packed->size(), 20);
  EXPECT_TRUE(packed->images().equal(plain->images()));
  EXPECT_EQ(packed->images()[1][0][0][0].item<int>(), 12);
  EXPECT_EQ(packed->labels()[13].item<int64_t>(), 3);
}

TEST_F(MnistFiles, AreNamedWhenMissing) {
  EXPECT_THAT(refusal(ErrorKind::kUsage, Split::kTest),
              HasSubstr("t10k-images-idx3-ubyte (or .gz)\nhint: buy it"));
  fs::remove(folder_ / "train-labels-idx1-ubyte");
  EXPECT_THAT(refusal(ErrorKind::kUsage), HasSubstr("train-labels-idx1-ubyte (or .gz)"));
}

TEST_F(MnistFiles, AreRefusedWhenSwapped) {
  put("train-images-idx3-ubyte", formats::idx_file({20}, 10));
  put("train-labels-idx1-ubyte", formats::idx_file({20, 3, 4}));
  EXPECT_THAT(refusal(ErrorKind::kEnvironment),
              HasSubstr("labels are [samples] of bytes (type 8) (got [20, 3, 4] of type 8)"));
  put("train-labels-idx1-ubyte", formats::idx_file({20}, 10));
  EXPECT_THAT(refusal(ErrorKind::kEnvironment),
              HasSubstr("images are [samples, 3, 4] of bytes (type 8) (got [20] of type 8)"));
}

TEST_F(MnistFiles, AreRefusedWhenOfOtherSizeOrType) {
  put("train-images-idx3-ubyte", formats::idx_file({20, 4, 3}));
  EXPECT_THAT(refusal(ErrorKind::kEnvironment), HasSubstr("got [20, 4, 3]"));
  put("train-images-idx3-ubyte",
      formats::operator+(formats::idx_header(13, {1, 3, 4}), formats::ByteVector(48)));
  EXPECT_THAT(refusal(ErrorKind::kEnvironment), HasSubstr("of type 13"));
}

TEST_F(MnistFiles, AreRefusedWhenTheirNumbersDiffer) {
  put("train-labels-idx1-ubyte", formats::idx_file({19}, 10));
  EXPECT_THAT(refusal(ErrorKind::kEnvironment), HasSubstr("19 labels, 20 images"));
}

TEST_F(MnistFiles, AreRefusedWhenALabelIsNoClass) {
  put("train-labels-idx1-ubyte", formats::idx_file({20}, 11));
  EXPECT_THAT(refusal(ErrorKind::kEnvironment),
              HasSubstr("labels run from 0 to 9 (got 10 for sample 10)"));
}

TEST_F(MnistFiles, AreRefusedWhenCut) {
  formats::ByteVector cut = formats::gzip(formats::idx_file({20, 3, 4}));
  cut.resize(cut.size() / 2);
  put("train-images-idx3-ubyte", cut);
  EXPECT_THAT(refusal(ErrorKind::kEnvironment), HasSubstr("damaged IDX file"));
}

}  // namespace
}  // namespace muster::data
