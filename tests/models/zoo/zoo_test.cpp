// Every model against its Python twin: tests/golden/models/README.md, made by PyTorch.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/json.h"
#include "muster/models/model.h"
#include "muster/models/zoo/lstm.h"
#include "muster/models/zoo/transformer.h"

#include "tests/support/distance.h"
#include "tests/support/error_of.h"
#include "tests/support/kernel_golden.h"

namespace muster {
namespace {

const Json& models_golden() {
  static const Json json = test::read_kernel_golden("models");
  return json;
}

using models::ImageShape;
using test::refusal_of;
using ::testing::HasSubstr;

ImageShape shape_of(const Json& shape) {
  return {shape.at("channels"), shape.at("height"), shape.at("width"), shape.at("classes")};
}

ParamValues params_of(const Json& object) {
  ParamValues params;
  for (const auto& [name, value] : object.items())
    params[name] = value.is_string() ? value.get<std::string>() : value.dump();
  return params;
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
    EXPECT_EQ(test::distance(row.narrow(0, 0, first), facts.at("first")), 0) << name;
    EXPECT_EQ(test::distance(row.narrow(0, row.numel() - last, last), facts.at("last")), 0) << name;
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

TEST(Zoo, WeightsAndScoresAreThoseOfPython) {
  for (const Json& expected : models_golden().at("cases")) {
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
    torch::manual_seed(5);
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

void expect_token_scores(models::Classifier& model, const Json& expected) {
  std::vector<std::string> names;
  for (const auto& item : model.named_parameters()) names.push_back(item.key());
  EXPECT_EQ(names, expected.at("names").get<std::vector<std::string>>());
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(11);
  const torch::Tensor ids = torch::randint(
      0, expected.at("options").at("vocabulary").get<int64_t>(), {4, 13}, generator, torch::kLong);
  model.to(torch::kDouble);
  torch::manual_seed(5);
  const torch::NoGradGuard no_grad;
  model.eval();
  EXPECT_LE(test::distance(model.forward(ids), expected.at("float64").at("scores_eval")), 1e-10);
  model.train();
  EXPECT_LE(test::distance(model.forward(ids), expected.at("float64").at("scores_train")), 1e-10);
}

TEST(Zoo, ModelsOverTokenIdsHaveTheScoresOfPython) {
  const Json& lstm = models_golden().at("token_cases").at(0);
  const Json& of_lstm = lstm.at("options");
  torch::manual_seed(0);
  models::LstmImpl reader({.classes = 3},
                          {.hidden = of_lstm.at("hidden"),
                           .layers = of_lstm.at("layers"),
                           .dropout = of_lstm.at("dropout"),
                           .vocabulary = of_lstm.at("vocabulary"),
                           .embedding = of_lstm.at("embedding")});
  expect_token_scores(reader, lstm);
  const Json& transformer = models_golden().at("token_cases").at(1);
  const Json& of_transformer = transformer.at("options");
  torch::manual_seed(0);
  models::TransformerImpl encoder({.classes = 3},
                                  {.width = of_transformer.at("width"),
                                   .heads = of_transformer.at("heads"),
                                   .layers = of_transformer.at("layers"),
                                   .feedforward = of_transformer.at("feedforward"),
                                   .vocabulary = of_transformer.at("vocabulary"),
                                   .tokens = of_transformer.at("tokens")});
  expect_token_scores(encoder, transformer);
}

TEST(Zoo, RefusesImagesThatAreTooSmall) {
  EXPECT_THAT(
      refusal_of([] { models::make_model("lenet", {.channels = 1, .height = 8, .width = 8}); }),
      HasSubstr("at least 16 x 16 pixels (got 8 x 8)"));
}

TEST(Zoo, RefusesOptionsThatAModelCannotBeMadeFrom) {
  const auto refusal = [](const std::string& model, const ParamValues& params) {
    return refusal_of([&] {
      models::make_model(model, {.channels = 3, .height = 64, .width = 64, .classes = 3}, params);
    });
  };
  EXPECT_THAT(refusal("transformer", {{"width", "10"}}), HasSubstr("heads divide the width"));
  EXPECT_THAT(refusal("transformer", {{"patch", "5"}}),
              HasSubstr("without a rest (got patch=5 for 64 x 64)"));
  EXPECT_THAT(refusal("transformer", {{"layers", "0"}}), HasSubstr("at least 1"));
  EXPECT_THAT(refusal("lstm", {{"hidden", "0"}}), HasSubstr("at least 1"));
  EXPECT_THAT(refusal("lstm", {{"dropout", "1.5"}}), HasSubstr("in 0 … 1 (got 1.5)"));
  EXPECT_THAT(refusal("vgg11", {{"hidden", "0"}}), HasSubstr("hidden is at least 1"));
  EXPECT_THAT(refusal("alexnet", {{"hidden", "0"}}), HasSubstr("hidden is at least 1"));
  EXPECT_THAT(refusal("resnet18", {{"zero_init", "1"}}), HasSubstr("zero_init_residual"));
}

TEST(Zoo, RefusesInputOfAnotherKindThanTheModelWasMadeFor) {
  models::LstmImpl reader({.classes = 3}, {.hidden = 4, .vocabulary = 5, .embedding = 3});
  EXPECT_THAT(refusal_of([&] {
                reader.forward(torch::rand({1, 1, 28, 28}));
              }),
              HasSubstr("token ids [N, T] (got shape [1, 1, 28, 28])"));
  models::TransformerImpl encoder({.classes = 3}, {.vocabulary = 5, .tokens = 4});
  EXPECT_THAT(refusal_of([&] {
                encoder.forward(torch::zeros({1, 5}, torch::kLong));
              }),
              HasSubstr("at most 4 tokens (got 5)"));
  models::TransformerImpl viewer(ImageShape{.classes = 3});
  EXPECT_THAT(refusal_of([&] {
                viewer.forward(torch::rand({1, 1, 28, 32}));
              }),
              HasSubstr("made for 49 tokens (got 56)"));
}

TEST(Zoo, RefusesUnknownModelsAndParameters) {
  EXPECT_THAT(refusal_of([] { models::make_model("lenett", {}); }),
              HasSubstr("did you mean \"lenet\"?"));
  EXPECT_THAT(refusal_of([] {
                models::make_model("mlp", {}, {{"hiden", "3"}});
              }),
              HasSubstr("did you mean \"hidden\"?"));
  EXPECT_THAT(refusal_of([] {
                models::make_model("mlp", {}, {{"hidden", "0"}});
              }),
              HasSubstr("at least 1"));
  EXPECT_THAT(refusal_of([] {
                models::make_model("lenet", {}, {{"x", "1"}});
              }),
              HasSubstr("takes no parameters"));
}

}  // namespace
}  // namespace muster
