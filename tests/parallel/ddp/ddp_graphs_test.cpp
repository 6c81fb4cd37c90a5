// Graphs of all shapes under DistributedDataParallel: random ones, static ones.
// The cases are those of PyTorch's test_c10d_gloo.py and distributed_test.py that need no GPU, as
// facts: what must hold, not how.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/parallel/graphs.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): its helpers are what is written here

// --- random models

struct Draw {
  uint64_t seed;
  int ranks;
};

/// Chains of 1 to 6 layers, of which some are used twice, some never, with skips.
Graph random_graph(uint64_t seed, bool allow_unused, torch::Dtype dtype) {
  auto random = std::make_shared<std::mt19937_64>(seed);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>((*random)() % static_cast<uint64_t>(n));
  };
  const int64_t width = 2 + below(6), count = 1 + below(6);
  std::vector<std::pair<int64_t, int64_t>> shapes(static_cast<size_t>(count), {width, width});
  std::vector<int> uses;
  for (int64_t i = 0; i < count; ++i)
    uses.push_back(i > 0 && allow_unused && below(3) == 0 ? 0 : 1 + static_cast<int>(below(2)));
  const bool skip = below(2) == 0;
  return make_graph(
      shapes,
      [uses, skip](GraphImpl& self, Tensor x) {
        for (size_t i = 0; i < uses.size(); ++i) {
          for (int use = 0; use < uses[i]; ++use) {
            const Tensor y = torch::tanh(self.layers[i](x));
            x = skip ? x + y : y;
          }
        }
        return x;
      },
      dtype);
}

class RandomGraphs : public ::testing::TestWithParam<int> {};

TEST_P(RandomGraphs, HaveOneRanksGradientsUnderAnyOptions) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    std::mt19937_64 random(1000 + seed);
    const bool unused = random() % 2 == 0, wide = random() % 3 != 0;
    const bool is_static = random() % 3 == 0;
    const DdpOptions options{.bucket_bytes_cap = static_cast<int64_t>(64 << random() % 6),
                             .first_bucket_bytes_cap = static_cast<int64_t>(64 << random() % 4),
                             .find_unused_parameters = unused && !is_static,
                             .gradient_as_bucket_view = random() % 2 == 0,
                             .static_graph = is_static,
                             .direct_bytes = random() % 2 == 0 ? 100 : 1 << 20};
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_equals_one_rank(
        [&] { return random_graph(seed, unused, wide ? torch::kDouble : torch::kFloat); },
        options,
        GetParam(),
        seed % 6 == 0   ? "gloo"
        : seed % 6 == 3 ? "shm"
                        : "thread",
        wide ? 1e-12 : 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, RandomGraphs, ::testing::Values(1, 2, 3, 4), [](const auto& info) {
  return std::to_string(info.param) + "_ranks";
});

// --- static graphs

TEST(StaticGraph, SeveralForwardsBeforeOneBackwardAreAveraged) {
  // Without static_graph a parameter would be reported ready twice.
  const auto make = [] {
    return make_graph({{10, 10}},
                      [](GraphImpl& self, Tensor x) { return torch::relu(self.layers[0](x)); });
  };
  std::vector<Graph> nets{make(), make()};
  run_ranks(2, [&](ProcessGroup group) {
    const Graph net = nets[group.rank()], whole = make_graph({{10, 10}}, net->run);
    {
      const torch::NoGradGuard no_grad;
      for (const auto& item : whole->named_parameters())
        item.value().copy_(net->named_parameters()[item.key()]);
    }
    DistributedDataParallel ddp(net, group, {.static_graph = true});
    for (int step = 0; step < 3; ++step) {
      const Tensor x = draw({4, 10}, static_cast<uint64_t>(step)),
                   z = draw({4, 10}, 7 + static_cast<uint64_t>(step));
      ddp.zero_grad();
      for (auto& parameter : whole->parameters()) parameter.mutable_grad() = Tensor();
      const Tensor a = ddp->forward(share_of(x, group)), b = ddp->forward(share_of(z, group));
      (a.mean() + b.square().mean()).backward();
      (whole->forward(x).mean() + whole->forward(z).square().mean()).backward();
      expect_same_gradients(*net, *whole, 1e-12);
    }
  });
}

/// What torch.utils.checkpoint(use_reentrant=True) does: no graph forward, a backward in backward.
struct Recompute : torch::autograd::Function<Recompute> {
  static Tensor forward(torch::autograd::AutogradContext* context,
                        const Tensor& x,
                        int64_t layer,
                        GraphImpl* graph) {
    context->save_for_backward({x});
    context->saved_data["layer"] = layer;
    context->saved_data["graph"] = reinterpret_cast<int64_t>(graph);
    const torch::NoGradGuard no_grad;
    return torch::tanh(graph->layers[static_cast<size_t>(layer)](x));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    auto* graph = reinterpret_cast<GraphImpl*>(context->saved_data["graph"].toInt());
    const auto layer = static_cast<size_t>(context->saved_data["layer"].toInt());
    const Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    const torch::AutoGradMode on(true);
    torch::autograd::backward({torch::tanh(graph->layers[layer](x))}, {gradients[0]});
    return {x.grad(), Tensor(), Tensor()};
  }
};

TEST(StaticGraph, BackwardWithinBackwardMayMeetAParameterTwice) {
  const auto make = [] {
    return make_graph({{6, 6}, {6, 6}}, [](GraphImpl& self, Tensor x) {
      x = self.layers[1](x);
      x = Recompute::apply(x, 0, &self);
      return Recompute::apply(x, 0, &self);
    });
  };
  for (const bool view : {false, true}) {
    expect_equals_one_rank(
        make, {.bucket_bytes_cap = 100, .gradient_as_bucket_view = view, .static_graph = true}, 3);
  }
}

TEST(StaticGraph, FindsUnusedParametersOnce) {
  const auto make = [] {
    return make_graph({{6, 6}, {6, 2}, {6, 3}},
                      [](GraphImpl& self, Tensor x) { return self.layers[2](self.layers[0](x)); });
  };
  for (const bool searched : {false, true}) {
    expect_equals_one_rank(make, {.find_unused_parameters = searched, .static_graph = true}, 2);
  }
}

TEST(StaticGraph, AResultOfManyTensorsIsFine) {
  struct ManyImpl : torch::nn::Module {
    ManyImpl() { line = register_module("line", torch::nn::Linear(5, 1)); }
    std::map<std::string, std::vector<Tensor>> forward(Tensor x) {
      return {{"a", {line(x)}}, {"b", {line(x * 2), x}}};
    }
    torch::nn::Linear line{nullptr};
  };
  std::vector<std::shared_ptr<ManyImpl>> nets{std::make_shared<ManyImpl>(),
                                              std::make_shared<ManyImpl>()};
  run_ranks(2, [&](ProcessGroup group) {
    DistributedDataParallel ddp(nets[group.rank()], group, {.static_graph = true});
    for (int step = 0; step < 4; ++step) {
      ddp.zero_grad();
      const Tensor x = torch::full({2, 5}, 1.0 + group.rank());
      auto result = ddp->forward(x);
      (result["a"][0].sum() + result["b"][0].sum()).backward();
      // d/dw of 3 x over 2 rows: 6 on rank 0, 12 on rank 1.
      EXPECT_TRUE(torch::allclose(ddp.parameters()[0].grad(), torch::full({1, 5}, 9.0)));
    }
  });
}
}  // namespace
}  // namespace muster
