// Frozen parameters among weights in shards: they come and go as the others, and get no gradients.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/sharded/zero.h"
#include "muster/testing/run_ranks.h"

#include "tests/parallel/sharded/unit_net.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using parallel::ReleasableTensor;
using parallel::ShardedDataParallel;
using test::copies;
using test::difference;
using test::error_of;
using test::kUnitWidth;
using test::sharded_and_alone;
using test::state_of;
using test::UnitNet;
using test::UnitNetImpl;
using ::testing::HasSubstr;

TEST(ZeroFrozen, ParametersMayBeAnywhere) {
  const auto freeze = [](UnitNetImpl& net) {
    net.layers[1]->weight.set_requires_grad(false);
    net.layers[2]->bias.set_requires_grad(false);
    net.first->weight.set_requires_grad(false);
  };
  const auto [sharded, alone] = sharded_and_alone(2, 3, freeze);
  EXPECT_LE(difference(sharded, alone), 1e-12);
}

// Gradients pass through the frozen unit in the middle, and end before the first one.
TEST(ZeroFrozen, UnitsMayBeWhole) {
  for (const std::vector<size_t>& frozen :
       std::vector<std::vector<size_t>>{{0}, {1}, {0, 1}, {1, 2}}) {
    const auto freeze = [&](UnitNetImpl& net) {
      for (const size_t layer : frozen) {
        net.layers[layer]->weight.set_requires_grad(false);
        net.layers[layer]->bias.set_requires_grad(false);
      }
    };
    const auto [sharded, alone] = sharded_and_alone(3, 3, freeze);
    EXPECT_LE(difference(sharded, alone), 1e-12) << frozen.size() << ' ' << frozen[0];
  }
}

/// A frozen weight of two layers, registered in each.
struct TiedNetImpl : torch::nn::Module {
  TiedNetImpl() {
    torch::manual_seed(3);
    first = register_parameter("first", torch::randn({4, 4}, torch::kDouble), false);
    second = register_module("second", std::make_shared<torch::nn::Module>());
    second->register_parameter("weight", first, false);
    trained = register_module("trained", torch::nn::Linear(4, 4));
    trained->to(torch::kDouble);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return tensor::call_unit("trained", trained, x.matmul(first)).matmul(first);
  }
  torch::Tensor first;
  std::shared_ptr<torch::nn::Module> second;
  torch::nn::Linear trained{nullptr};
};
TORCH_MODULE(TiedNet);

TEST(ZeroFrozen, ParametersMayBeTied) {
  std::vector<TiedNet> nets{TiedNet(), TiedNet()};
  nets[1]->first.zero_();  // rank 0's count
  TiedNet alone;
  const torch::Tensor x = torch::ones({2, 4}, torch::kDouble);
  testing::run_ranks(2, [&](ProcessGroup group) {
    TiedNet net = nets[group.rank()];
    ShardedDataParallel zero(net, group, {.stage = 3, .units = {{"trained"}}});
    const c10::NoGradGuard no_grad;
    EXPECT_LE((zero->forward(x) - alone->forward(x)).abs().max().item<double>(), 1e-12);
  });
}

TEST(ZeroFrozen, ParametersAreSavedAndLoaded) {
  std::vector<UnitNet> nets{UnitNet(3), UnitNet(3)};
  const std::vector<torch::Tensor> before = copies(state_of(*nets[0]));
  testing::run_ranks(2, [&](ProcessGroup group) {
    UnitNet net = nets[group.rank()];
    net->layers[1]->weight.set_requires_grad(false);
    const std::string frozen = "layer1.weight";
    ShardedDataParallel zero(net, group, {.stage = 3, .units = net->units()});
    const at::Tensor other =
        torch::arange(kUnitWidth * kUnitWidth, torch::kDouble).view({kUnitWidth, kUnitWidth});
    if (ReleasableTensor::has_error())
      EXPECT_THAT(error_of([&] { net->layers[1]->weight.sum(); }), HasSubstr("weights in shards"));
    zero.load_weights({{frozen, other}});
    const auto saved = zero.gather_weights();
    if (group.rank() == 0) {
      const auto found =
          std::ranges::find(saved, frozen, [](const auto& named) { return named.first; });
      ASSERT_NE(found, saved.end());
      EXPECT_TRUE(found->second.equal(other));
    }
    EXPECT_THAT(error_of([&] {
                  zero.load_weights({{"layer1.wight", other}});
                }),
                HasSubstr("layer1.weight"));
    const auto whole = zero.whole_weights();
    EXPECT_TRUE(net->layers[1]->weight.equal(other));
    const std::vector<torch::Tensor> now = copies(state_of(*net));
    size_t changed = 0;
    for (size_t i = 0; i < now.size(); ++i) changed += now[i].equal(before[i]) ? 0 : 1;
    EXPECT_EQ(changed, 1U);
  });
}

}  // namespace
}  // namespace muster
