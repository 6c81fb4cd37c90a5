// Resizing against torchvision: tests/golden/resize/README.md.
#include "muster/data/transforms/fit_images.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/data/loader/loader.h"
#include "muster/data/sets/image_dataset.h"
#include "muster/data/sets/subset_dataset.h"
#include "muster/data/sets/tensor_dataset.h"

#include "tests/support/golden.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> all_of(const Dataset& dataset) {
  std::vector<int64_t> indices(static_cast<size_t>(dataset.size()));
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
  return indices;
}

std::shared_ptr<const ImageDataset> bytes_dataset(const at::Tensor& images) {
  const auto channels = static_cast<size_t>(images.size(1));
  return std::make_shared<ImageDataset>(
      DataSpec{.name = "bytes",
               .sample_shape = images.sizes().slice(1).vec(),
               .classes = 2,
               .mean = std::vector<double>(channels, 0.4),
               .standard_deviation = std::vector<double>(channels, 0.3)},
      images,
      torch::arange(images.size(0)).remainder(2));
}

at::Tensor normalised(const at::Tensor& bytes) {
  const auto number = [](float value) { return torch::tensor(value); };
  return bytes.to(torch::kFloat).div(255).sub(number(0.4F)).div(number(0.3F));
}

void expect_bytes(const at::Tensor& images, const Json& item) {
  const auto fitted =
      fit_images(bytes_dataset(images), images.size(1), item.at("height"), item.at("width"));
  const at::Tensor expected =
      torch::tensor(item.at("pixels").get<std::vector<int64_t>>())
          .view({images.size(0), images.size(1), item.at("height"), item.at("width")});
  EXPECT_TRUE(fitted->get(all_of(*fitted))["data"].equal(normalised(expected)));
}

void expect_floats(const at::Tensor& images, const Json& item) {
  const auto source = std::make_shared<TensorDataset>(images, torch::arange(images.size(0)));
  const auto fitted = fit_images(source, images.size(1), item.at("height"), item.at("width"));
  const at::Tensor ours = fitted->get(all_of(*fitted))["data"];
  const at::Tensor expected =
      torch::tensor(item.at("floats").at("pixels").get<std::vector<double>>()).view(ours.sizes());
  EXPECT_LE((ours - expected).abs().max().item<double>(),
            item.at("floats").at("tolerance").get<double>());
}

TEST(FitImages, ResizesAsTorchvisionDoes) {
  const Json golden = test::read_golden("resize");
  for (const Json& item : golden.at("cases")) {
    SCOPED_TRACE(item.at("kind").dump() + " " + item.at("shape").dump());
    auto generator = torch::make_generator<at::CPUGeneratorImpl>(21);
    const auto shape = item.at("shape").get<std::vector<int64_t>>();
    if (item.at("kind") == "bytes") {
      expect_bytes(torch::randint(0, 256, shape, generator, torch::kByte), item);
    } else {
      expect_floats(torch::rand(shape, generator), item);
    }
  }
}

TEST(FitImages, ABatchDoesNotDependOnItsCompany) {
  const auto fitted =
      fit_images(bytes_dataset(torch::randint(256, {6, 1, 28, 28}, torch::kByte)), 3, 40, 33);
  const at::Tensor all = fitted->get(all_of(*fitted))["data"];
  for (int64_t i = 0; i < 6; ++i) EXPECT_TRUE(fitted->get({&i, 1})["data"][0].equal(all[i]));
  EXPECT_THAT(fitted->get({})["data"].sizes(), ElementsAre(0, 3, 40, 33));
}

TEST(FitImages, RepeatsTheOnlyChannelAndSaysSo) {
  const auto source = bytes_dataset(torch::randint(256, {4, 1, 6, 6}, torch::kByte));
  const at::Tensor plain = source->get(all_of(*source))["data"];
  const auto repeated = fit_images(source, 3, 6, 6);
  const at::Tensor batch = repeated->get(all_of(*source))["data"];
  EXPECT_TRUE(batch.equal(plain.repeat({1, 3, 1, 1})));
  EXPECT_TRUE(batch.is_contiguous());
  const at::Tensor both = fit_images(source, 3, 12, 9)->get(all_of(*source))["data"];
  const at::Tensor grey = fit_images(source, 1, 12, 9)->get(all_of(*source))["data"];
  EXPECT_TRUE(both.equal(grey.repeat({1, 3, 1, 1})));
  const DataSpec spec = fit_images(source, 3, 12, 9)->spec();
  EXPECT_THAT(spec.sample_shape, ElementsAre(3, 12, 9));
  EXPECT_THAT(spec.mean, ElementsAre(0.4, 0.4, 0.4));
  EXPECT_THAT(spec.standard_deviation, ElementsAre(0.3, 0.3, 0.3));
  EXPECT_EQ(spec.classes, 2);
}

TEST(FitImages, IsTheDatasetItselfWhereNothingChanges) {
  const auto source = bytes_dataset(torch::zeros({4, 3, 6, 6}, torch::kByte));
  EXPECT_EQ(fit_images(source, 3, 6, 6), source);
}

TEST(FitImages, KeepsTheNumbersOfASubset) {
  const auto source = bytes_dataset(torch::randint(256, {9, 1, 6, 6}, torch::kByte));
  const auto fitted = fit_images(std::make_shared<SubsetDataset>(source, 3, 4), 3, 12, 12);
  EXPECT_EQ(fitted->size(), 4);
  EXPECT_THAT(fitted->spec().sample_shape, ElementsAre(3, 12, 12));
  const int64_t second = 1, fifth = 4;
  const Batch batch = fitted->get({&second, 1});
  EXPECT_TRUE(batch["data"].equal(fit_images(source, 3, 12, 12)->get({&fifth, 1})["data"]));
  EXPECT_THAT(batch.indices, ElementsAre(1));
}

TEST(FitImages, GoesThroughTheLoadersWorkers) {
  const auto fitted =
      fit_images(bytes_dataset(torch::randint(256, {10, 1, 8, 8}, torch::kByte)), 3, 17, 16);
  Loader loader(fitted, {.batch_size = 3, .workers = 2});
  int64_t at = 0;
  for (const Batch& batch : loader.epoch(0)) {
    for (int64_t row = 0; row < batch.size(); ++row, ++at)
      EXPECT_TRUE(batch["data"][row].equal(fitted->get({&at, 1})["data"][0]));
  }
  EXPECT_EQ(at, 10);
}

std::string refusal(const std::shared_ptr<const Dataset>& dataset,
                    int64_t channels,
                    int64_t height = 8) {
  try {
    fit_images(dataset, channels, height, 8);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(FitImages, RefusesWhatCannotBeFitted) {
  const auto grey = bytes_dataset(torch::zeros({1, 1, 6, 6}, torch::kByte));
  const auto pair = bytes_dataset(torch::zeros({1, 2, 6, 6}, torch::kByte));
  const auto tensors = [](const at::Tensor& data) {
    return std::make_shared<TensorDataset>(data, torch::zeros({1}));
  };
  EXPECT_THAT(refusal(pair, 3), HasSubstr("only one channel can be repeated (got 2 to 3)"));
  EXPECT_THAT(refusal(pair, 1), HasSubstr("got 2 to 1"));
  EXPECT_THAT(refusal(grey, 3, 0), HasSubstr("at least 1 (got 3 x 0 x 8)"));
  EXPECT_THAT(refusal(tensors(torch::zeros({1, 6})), 1), HasSubstr("[channels, height, width]"));
  EXPECT_THAT(refusal(tensors(torch::zeros({1, 1, 6, 6}, torch::kLong)), 1),
              HasSubstr("float32, float64 or uint8"));
}

}  // namespace
}  // namespace muster::data
