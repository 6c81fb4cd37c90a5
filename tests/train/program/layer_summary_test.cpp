#include "muster/train/program/layer_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/json.h"

namespace muster::train {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;

torch::nn::Sequential small_net() {
  return torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 64, 7).bias(false)),
                               torch::nn::ReLU(),
                               torch::nn::Linear(512, 10));
}

// The numbers of PyTorch's sum(p.numel() for p in module.parameters()).
TEST(LayerSummary, CountsEachLayerAndTheWhole) {
  auto net = small_net();
  net[2]->as<torch::nn::Linear>()->weight.set_requires_grad(false);
  const LayerSummary found = layer_summary(*net);
  EXPECT_EQ(found.parameters, 9408 + 5130);
  EXPECT_EQ(found.trained, 9408 + 10);
  EXPECT_EQ(explained_layers(found),
            "parameters    14,538, 9,418 trained\n"
            "layers        0  Conv2d  9,408\n"
            "              1  ReLU        0\n"
            "              2  Linear  5,130  10 trained\n");
  EXPECT_EQ(to_json(found)["layers"][2],
            Json({{"name", "2"}, {"type", "Linear"}, {"parameters", 5130}, {"trained", 10}}));
}

struct WrapperImpl : torch::nn::Module {
  explicit WrapperImpl(const torch::nn::Sequential& net) { register_module("net", net); }
};
TORCH_MODULE(Wrapper);

TEST(LayerSummary, LooksIntoWhatIsAllThereIs) {
  const LayerSummary found = layer_summary(*Wrapper(small_net()));
  EXPECT_THAT(found.layers,
              ElementsAre(Field(&LayerRow::name, "net.0"),
                          Field(&LayerRow::name, "net.1"),
                          Field(&LayerRow::name, "net.2")));
}

struct WithTokenImpl : torch::nn::Module {
  WithTokenImpl() {
    token = register_parameter("token", torch::zeros({1, 8}));
    in = register_module("in", torch::nn::Embedding(50, 8));
    out = register_module("out", torch::nn::Linear(torch::nn::LinearOptions(8, 50).bias(false)));
  }
  at::Tensor token;
  torch::nn::Embedding in{nullptr};
  torch::nn::Linear out{nullptr};
};
TORCH_MODULE(WithToken);

TEST(LayerSummary, NamesParametersOfNoLayer) {
  WithToken net;
  net->token.set_requires_grad(false);
  const LayerSummary found = layer_summary(*net);
  EXPECT_THAT(found.layers[0].type, "parameter");
  EXPECT_EQ(explained_layers(found),
            "parameters    808, 800 trained\n"
            "layers        token  parameter    8  frozen\n"
            "              in     Embedding  400\n"
            "              out    Linear     400\n");
}

TEST(LayerSummary, CountsOnceWhatLayersShare) {
  const torch::nn::Linear shared(4, 4);
  const LayerSummary found = layer_summary(*torch::nn::Sequential(shared, shared));
  EXPECT_EQ(found.parameters, 20);
  EXPECT_EQ(found.layers[1].parameters, 20);
}

TEST(LayerSummary, OfMoreThanAPageSaysHowManyAreLeft) {
  torch::nn::ModuleList list;
  for (int i = 0; i < 43; ++i) list->push_back(torch::nn::ReLU());
  EXPECT_TRUE(explained_layers(layer_summary(*list)).ends_with("              and 3 more\n"));
}

}  // namespace
}  // namespace muster::train
