// Every model against its Python twin: tests/golden/models/README.md, made by PyTorch.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/json.h"
#include "muster/models/model.h"

namespace muster {
namespace {

using models::ImageShape;
using ::testing::HasSubstr;

const Json& golden() {
  static const Json data = [] {
    std::ifstream file(std::string(MUSTER_SOURCE_DIR) + "/tests/golden/models/golden.json");
    return Json::parse(file);
  }();
  return data;
}

ImageShape shape_of(const Json& shape) {
  return {shape.at("channels"), shape.at("height"), shape.at("width"), shape.at("classes")};
}

ParamValues params_of(const Json& object) {
  ParamValues params;
  for (const auto& [name, value] : object.items())
    params[name] = value.is_string() ? value.get<std::string>() : value.dump();
  return params;
}

double distance(const torch::Tensor& ours, const Json& expected) {
  const std::vector<double> values = expected.get<std::vector<double>>();
  return (ours.detach().to(torch::kDouble).reshape(-1) - torch::tensor(values, torch::kDouble))
      .abs()
      .max()
      .item<double>();
}

void expect_parameters(models::Classifier& model, const Json& expected) {
  std::vector<std::string> names, expected_names;
  for (const auto& item : model.named_parameters()) names.push_back(item.key());
  for (const auto& [name, facts] : expected.items()) expected_names.push_back(name);
  ASSERT_EQ(names, expected_names);
  for (const auto& [name, facts] : expected.items()) {
    const torch::Tensor tensor = model.named_parameters()[name].detach();
    EXPECT_EQ(tensor.sizes().vec(), facts.at("shape").get<std::vector<int64_t>>()) << name;
    const torch::Tensor row = tensor.reshape(-1);
    const auto first = facts.at("first").size(), last = facts.at("last").size();
    EXPECT_EQ(distance(row.narrow(0, 0, first), facts.at("first")), 0) << name;
    EXPECT_EQ(distance(row.narrow(0, row.numel() - last, last), facts.at("last")), 0) << name;
    EXPECT_NEAR(tensor.to(torch::kDouble).sum().item<double>(),
                facts.at("sum").at("value").get<double>(),
                facts.at("sum").at("tolerance"))
        << name;
  }
}

torch::Tensor flattened(const Json& nested) {
  std::vector<double> values;
  const std::function<void(const Json&)> walk = [&](const Json& item) {
    if (item.is_array()) {
      for (const Json& inner : item) walk(inner);
    } else {
      values.push_back(item.get<double>());
    }
  };
  walk(nested);
  return torch::tensor(values, torch::kDouble);
}

TEST(Zoo, EveryModelHasAGolden) {
  std::vector<std::string> covered;
  for (const Json& item : golden().at("cases")) covered.push_back(item.at("model"));
  EXPECT_THAT(covered, ::testing::IsSupersetOf(models::models().names()));
}

TEST(Zoo, WeightsAndScoresAreThoseOfPython) {
  for (const Json& expected : golden().at("cases")) {
    SCOPED_TRACE(expected.at("model").dump() + " " + expected.at("params").dump() + " " +
                 expected.at("shape").dump());
    const ImageShape shape = shape_of(expected.at("shape"));
    torch::manual_seed(0);
    const auto model = models::make_model(
        expected.at("model").get<std::string>(), shape, params_of(expected.at("params")));
    expect_parameters(*model, expected.at("parameters"));

    auto generator = torch::make_generator<at::CPUGeneratorImpl>(11);
    torch::Tensor images = torch::rand({4, shape.channels, shape.height, shape.width}, generator);
    images = images * 2;
    images = images - 1;
    model->to(torch::kDouble);
    images = images.to(torch::kDouble);
    const torch::NoGradGuard no_grad;
    const Json& expected64 = expected.at("float64");
    const double tolerance = expected64.at("tolerance");
    const auto near = [&](const torch::Tensor& ours, const Json& theirs, const std::string& what) {
      EXPECT_LE(
          (ours.to(torch::kDouble).reshape(-1) - flattened(theirs)).abs().max().item<double>(),
          tolerance)
          << what;
    };
    model->eval();
    near(model->forward(images), expected64.at("scores_eval"), "scores_eval");
    model->train();
    near(model->forward(images), expected64.at("scores_train"), "scores_train");
    for (const auto& [name, values] : expected64.at("buffers_after").items())
      near(model->named_buffers()[name], values, name);
  }
}

std::string error_of(const std::function<void()>& callable) {
  try {
    callable();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "no error";
}

TEST(Zoo, RefusesImagesThatAreTooSmall) {
  EXPECT_THAT(
      error_of([] { models::make_model("lenet", {.channels = 1, .height = 8, .width = 8}); }),
      HasSubstr("at least 16 x 16 pixels (got 8 x 8)"));
}

TEST(Zoo, RefusesUnknownModelsAndParameters) {
  EXPECT_THAT(error_of([] { models::make_model("lenett", {}); }),
              HasSubstr("did you mean \"lenet\"?"));
  EXPECT_THAT(error_of([] {
                models::make_model("mlp", {}, {{"hiden", "3"}});
              }),
              HasSubstr("did you mean \"hidden\"?"));
  EXPECT_THAT(error_of([] {
                models::make_model("mlp", {}, {{"hidden", "0"}});
              }),
              HasSubstr("at least 1"));
  EXPECT_THAT(error_of([] {
                models::make_model("lenet", {}, {{"x", "1"}});
              }),
              HasSubstr("takes no parameters"));
}

}  // namespace
}  // namespace muster
