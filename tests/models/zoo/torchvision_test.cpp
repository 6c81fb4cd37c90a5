// torchvision's models: tests/golden/torchvision/README.md, made by torchvision.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/json.h"
#include "muster/models/model.h"

#include "tests/support/golden.h"
#include "tests/support/kernel_golden.h"

namespace muster {
namespace {

/// Sums of a float tensor's bits as int32: of all, and of every third. Summed in parts, since a sum
/// of int32 makes a copy in int64.
std::array<int64_t, 2> bit_sums(const torch::Tensor& tensor) {
  const torch::Tensor bits = tensor.detach().flatten().view(torch::kInt);
  std::array<int64_t, 2> sums{};
  for (const torch::Tensor& part : bits.split(3 << 20)) {
    sums[0] += part.sum().item<int64_t>();
    sums[1] += part.slice(0, 0, std::nullopt, 3).sum().item<int64_t>();
  }
  return sums;
}

void expect_weights(const models::Classifier& model, const Json& expected) {
  std::vector<std::string> names, expected_names;
  for (const auto& item : model.named_parameters()) names.push_back(item.key());
  for (const auto& [name, facts] : expected.items()) expected_names.push_back(name);
  ASSERT_EQ(names, expected_names);
  for (const auto& item : model.named_parameters()) {
    const Json& facts = expected.at(item.key());
    EXPECT_EQ(item.value().sizes().vec(), facts.at(0).get<std::vector<int64_t>>()) << item.key();
    const auto sums = bit_sums(item.value());
    EXPECT_EQ(sums[0], facts.at(1).get<int64_t>()) << item.key();
    EXPECT_EQ(sums[1], facts.at(2).get<int64_t>()) << item.key();
  }
}

double row_distance(const torch::Tensor& scores, const Json& expected) {
  double most = 0;
  for (int64_t row = 0; row < scores.size(0); ++row) {
    const auto values = expected.at(static_cast<size_t>(row)).get<std::vector<double>>();
    const torch::Tensor ours = scores[row].narrow(0, 0, static_cast<int64_t>(values.size()));
    most = std::max(most,
                    (ours.to(torch::kDouble) - torch::tensor(values, torch::kDouble))
                        .abs()
                        .max()
                        .item<double>());
  }
  return most;
}

void expect_case(const Json& expected) {
  SCOPED_TRACE(expected.at("model").dump() + " " + expected.at("params").dump());
  const models::ImageShape shape{.channels = 3,
                                 .height = expected.at("height"),
                                 .width = expected.at("width"),
                                 .classes = expected.at("classes")};
  torch::manual_seed(3);
  const auto model = models::make_model(
      expected.at("model").get<std::string>(), shape, expected.at("params").get<ParamValues>());
  expect_weights(*model, expected.at("tensors"));
  std::vector<std::string> buffers;
  for (const auto& item : model->named_buffers()) buffers.push_back(item.key());
  EXPECT_EQ(buffers, expected.at("buffers").get<std::vector<std::string>>());
  const torch::Tensor images = torch::rand({2, 3, shape.height, shape.width},
                                           torch::make_generator<at::CPUGeneratorImpl>(11));
  torch::manual_seed(5);
  const torch::NoGradGuard no_grad;
  for (const char* mode : {"train", "eval"}) {
    model->train(mode == std::string("train"));
    EXPECT_LE(row_distance(model->forward(images), expected.at(mode).at("scores")),
              expected.at(mode).at("tolerance").get<double>())
        << mode;
  }
}

void expect_cases(const std::string& prefix) {
  const Json cases = test::read_kernel_golden("torchvision");
  size_t seen = 0;
  for (const Json& item : cases.at("cases")) {
    if (!item.at("model").get<std::string>().starts_with(prefix)) continue;
    expect_case(item);
    ++seen;
  }
  EXPECT_GT(seen, 0U);
}

TEST(Torchvision, AlexnetHasItsWeightsBitForBitAndItsScores) { expect_cases("alexnet"); }
TEST(Torchvision, VggHasItsWeightsBitForBitAndItsScores) { expect_cases("vgg"); }
TEST(Torchvision, ResnetHasItsWeightsBitForBitAndItsScores) { expect_cases("resnet"); }

TEST(Torchvision, EveryModelHasAGoldenOfItsOwn) {
  std::vector<std::string> covered;
  for (const char* name : {"models", "torchvision"}) {
    const Json data = test::read_golden(name);
    for (const Json& item : data.at("cases")) covered.push_back(item.at("model"));
  }
  EXPECT_THAT(covered, ::testing::IsSupersetOf(models::models().names()));
}

}  // namespace
}  // namespace muster
