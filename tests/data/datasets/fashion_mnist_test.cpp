// The real files against what Python reads from them; see tests/golden/fashion_mnist.
#include <bit>
#include <map>
#include <numeric>
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/data/sets/image_dataset.h"

#include "tests/data/fnv.h"
#include "tests/support/golden.h"

namespace muster::data {
namespace {

const Json& fashion_mnist_golden() {
  static const Json json = test::read_golden("fashion_mnist");
  return json;
}

class FashionMnist : public ::testing::TestWithParam<Split> {
 protected:
  const Json& want() const { return fashion_mnist_golden()[std::string(to_string(GetParam()))]; }

  std::shared_ptr<const ImageDataset> data_ = std::dynamic_pointer_cast<const ImageDataset>(
      datasets().at("fashion-mnist").open({.split = GetParam()}));
};

TEST_P(FashionMnist, HasTheSamplesAndLabelsThatPythonReads) {
  ASSERT_EQ(data_->size(), want()["samples"].get<int64_t>());
  const std::span<const int64_t> labels(data_->labels().const_data_ptr<int64_t>(),
                                        static_cast<size_t>(data_->size()));
  std::map<int64_t, int64_t> per_class;
  for (const int64_t label : labels) ++per_class[label];
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(per_class[static_cast<int64_t>(i)], want()["per_class"][i].get<int64_t>());
  }
  EXPECT_EQ(std::vector<int64_t>(labels.begin(), labels.begin() + 20),
            want()["first_labels"].get<std::vector<int64_t>>());
}

TEST_P(FashionMnist, HasTheImagesThatPythonReads) {
  EXPECT_EQ(data_->images().sum().item<int64_t>(), want()["pixel_sum"].get<int64_t>());
  for (const auto& [index, hash] : want()["images"].items()) {
    const uint8_t* pixels = data_->images()[std::stoll(index)].const_data_ptr<uint8_t>();
    EXPECT_EQ(fnv(std::span(pixels, 784)), hash.get<std::string>()) << "image " << index;
  }
}

TEST_P(FashionMnist, HasTheFingerprintThatPythonComputes) {
  EXPECT_EQ(data_->fingerprint(), want()["fingerprint"].get<uint32_t>());
}

INSTANTIATE_TEST_SUITE_P(Splits,
                         FashionMnist,
                         ::testing::Values(Split::kTrain, Split::kTest),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(FashionMnistSpec, NormalisesByTheStatisticsOfTheTrainingSplit) {
  const DataSpec spec = datasets().at("fashion-mnist").open({.split = Split::kTest})->spec();
  EXPECT_EQ(std::stod(fashion_mnist_golden()["train"]["mean"].get<std::string>()), spec.mean[0]);
  EXPECT_EQ(std::stod(fashion_mnist_golden()["train"]["std"].get<std::string>()),
            spec.standard_deviation[0]);
}

TEST(FashionMnistSpec, NamesTheClassesAsTorchvision) {
  const DataSpec spec = datasets().at("fashion-mnist").open({.split = Split::kTest})->spec();
  EXPECT_EQ(spec.class_names, fashion_mnist_golden()["classes"].get<std::vector<std::string>>());
}

TEST(FashionMnistSpec, GivesTheFloatsOfTorchvisionForEveryByte) {
  const DataSpec spec = datasets().at("fashion-mnist").open({.split = Split::kTest})->spec();
  const ImageDataset bytes({.name = "bytes",
                            .sample_shape = {1, 16, 16},
                            .classes = 1,
                            .mean = spec.mean,
                            .standard_deviation = spec.standard_deviation},
                           torch::arange(256, torch::kUInt8).view({1, 1, 16, 16}),
                           torch::zeros({1}, torch::kLong));
  const int64_t zero = 0;
  const at::Tensor floats = bytes.get({&zero, 1})["data"];
  const auto want = fashion_mnist_golden()["normalised"].get<std::vector<int32_t>>();
  for (size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(std::bit_cast<int32_t>(floats.const_data_ptr<float>()[i]), want.at(i))
        << "byte " << i;
  }
}

}  // namespace
}  // namespace muster::data
