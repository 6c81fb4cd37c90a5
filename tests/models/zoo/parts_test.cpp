// Parts of models: one after another they are the model.
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/models/model.h"
#include "muster/models/zoo/transformer.h"

namespace muster {
namespace {

using models::ImageShape;
using models::make_model;
using models::ModelPart;

struct ModelOfParts {
  std::string name;
  ParamValues params;
  size_t parts;
};

TEST(ModelParts, OneAfterAnotherAreTheModelAndHaveEachParameterOnce) {
  const ImageShape shape{.channels = 3, .height = 64, .width = 64, .classes = 7};
  const std::vector<ModelOfParts> cases{
      {"resnet18", {}, 1 + 8 + 1},
      {"resnet50", {}, 1 + 16 + 1},
      {"vgg11", {{"hidden", "16"}}, 5 + 1},
      {"vgg11", {{"hidden", "16"}, {"batch_norm", "true"}}, 5 + 1},
      {"transformer", {{"patch", "16"}, {"layers", "3"}}, 1 + 3 + 1},
      {"alexnet", {{"hidden", "16"}}, 5 + 3},
      {"cnn", {}, 2 + 2},
      {"lenet", {}, 2 + 3},
      {"lstm", {}, 2},
      {"mlp", {{"layers", "3"}}, 4}};
  for (const ModelOfParts& one : cases) {
    SCOPED_TRACE(one.name);
    torch::manual_seed(1);
    const auto model = make_model(one.name, shape, one.params);
    const std::vector<ModelPart> parts = model->parts();
    EXPECT_EQ(parts.size(), one.parts);
    for (const bool trains : {false, true}) {
      model->train(trains);
      const at::Tensor images = torch::randn({2, 3, 64, 64});
      torch::manual_seed(2);  // dropout
      const at::Tensor whole = model->forward(images.clone());
      torch::manual_seed(2);
      at::Tensor x = images;
      for (const ModelPart& part : parts) x = part.forward(x);
      EXPECT_TRUE(torch::equal(x, whole));
    }
    std::vector<at::Tensor> found;
    for (const ModelPart& part : parts) {
      for (const auto& module : part.modules)
        for (const at::Tensor& parameter : module->parameters()) found.push_back(parameter);
      for (const auto& [name, parameter] : part.parameters) {
        EXPECT_TRUE(model->named_parameters()[name].is_same(parameter));
        found.push_back(parameter);
      }
    }
    const auto expected = model->parameters();
    ASSERT_EQ(found.size(), expected.size());
    for (const at::Tensor& parameter : expected) {
      size_t count = 0;
      for (const at::Tensor& other : found) count += other.is_same(parameter);
      EXPECT_EQ(count, 1U);
    }
  }
}

TEST(ModelParts, OfAModelOfTextToo) {
  models::TransformerOptions options;
  options.vocabulary = 11;
  options.tokens = 6;
  options.layers = 2;
  models::Transformer model(ImageShape{.classes = 3}, options);
  model->eval();
  const at::Tensor tokens = torch::randint(11, {2, 6});
  at::Tensor x = tokens;
  for (const ModelPart& part : model->parts()) x = part.forward(x);
  EXPECT_TRUE(torch::equal(x, model->forward(tokens)));
}

/// Writes down which units a forward calls.
struct Calls final : tensor::UnitCalls {
  std::vector<at::Tensor> call(std::string_view unit,
                               const tensor::UnitForward& forward,
                               const std::vector<at::Tensor>& inputs) override {
    names.emplace_back(unit);
    return forward(inputs);
  }
  std::vector<std::string> names;
};

TEST(ModelParts, OfEveryModelAreTheUnitsThatItsForwardCalls) {
  for (const models::ModelEntry* entry : models::models()) {
    SCOPED_TRACE(entry->name);
    const auto model = make_model(entry->name, {.channels = 3, .height = 64, .width = 64});
    model->eval();
    Calls calls;
    {
      const tensor::UnitCallScope scope(calls);
      (void)model->forward(torch::zeros({1, 3, 64, 64}));
    }
    std::vector<std::string> units;
    for (const tensor::Unit& unit : model->units()) units.push_back(unit.name);
    EXPECT_GE(units.size(), 2U);
    EXPECT_EQ(calls.names, units);
  }
}

}  // namespace
}  // namespace muster
