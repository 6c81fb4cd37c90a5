// Gradients that are not dense tensors of one dtype.
// The cases are those of PyTorch's test_c10d_gloo.py and distributed_test.py that need no GPU, as
// facts: what must hold, not how.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/torch.h>

#include "tests/parallel/graphs.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): its helpers are what is written here

// --- gradients of other kinds

TEST(DdpGraphs, BackwardMayCreateAGraph) {
  struct SquareImpl : torch::nn::Module {
    SquareImpl() { p = register_parameter("p", torch::ones({})); }
    Tensor forward() { return p.pow(2); }
    Tensor p;
  };
  std::vector<std::shared_ptr<SquareImpl>> nets{std::make_shared<SquareImpl>(),
                                                std::make_shared<SquareImpl>()};
  run_ranks(2, [&](ProcessGroup group) {
    const auto net = nets[group.rank()];
    DistributedDataParallel ddp(net, group);
    for (int step = 0; step < 6; ++step) {
      net->p.mutable_grad() = Tensor();
      ddp->forward().backward({}, /*keep_graph=*/true, /*create_graph=*/true);
      EXPECT_EQ(net->p.grad().item<float>(), 2);
      EXPECT_TRUE(net->p.grad().requires_grad());
    }
    net->p.mutable_grad() = Tensor();  // breaks the cycle
  });
}

TEST(DdpGraphs, LayersWithoutOutputsAndParametersWithoutElementsCanBeWrapped) {
  const auto make = [] {
    return make_graph({{6, 4}, {4, 0}, {4, 2}}, [](GraphImpl& self, Tensor x) {
      x = self.layers[0](x);
      return self.layers[2](x) + self.layers[1](x).sum(1, true);
    });
  };
  std::vector<Graph> nets{make(), make()};
  run_ranks(2, [&](ProcessGroup group) {
    const Graph net = nets[group.rank()];
    DistributedDataParallel ddp(net, group);
    for (int step = 0; step < 3; ++step) {
      ddp.zero_grad();
      ddp->forward(draw({2, 6}, static_cast<uint64_t>(group.rank()))).sum().backward();
      const Tensor all = group.all_gather(net->layers[0]->weight.grad());
      EXPECT_TRUE(torch::equal(all[0], all[1]));
      EXPECT_EQ(net->layers[1]->weight.grad().numel(), 0);
    }
  });
}

TEST(DdpGraphs, ParametersOfTwoDtypesTravelInBucketsOfTheirOwn) {
  const auto make = [] {
    auto graph = make_graph({{6, 5}, {5, 5}, {5, 4}, {4, 3}}, [](GraphImpl& self, Tensor x) {
      for (auto& layer : self.layers) x = layer(x.to(layer->weight.scalar_type()));
      return x.to(torch::kDouble);
    });
    graph->layers[1]->to(torch::kFloat);
    graph->layers[2]->to(torch::kBFloat16);
    return graph;
  };
  for (const int64_t cap : {int64_t{1} << 20, int64_t{64}})
    expect_equals_one_rank(make, {.bucket_bytes_cap = cap}, 2, "thread", 2e-2);
}

/// A real matrix, which may travel directly, and complex parameters, which cannot.
struct ComplexImpl : torch::nn::Module {
  explicit ComplexImpl(torch::Dtype dtype) {
    const auto of = [&](at::IntArrayRef sizes, uint64_t seed) {
      return torch::complex(draw(sizes, seed), draw(sizes, seed + 1)).to(dtype);
    };
    w = register_parameter("w", of({4, 6}, 1));
    b = register_parameter("b", of({4}, 3));
    v = register_parameter("v", of({3, 4}, 5));
    a = register_parameter("a", draw({6, 6}, 7).to(c10::toRealValueType(dtype)));
  }
  /// [N, 6] -> [N], real.
  Tensor forward(Tensor x) {
    const Tensor h = torch::linear(torch::linear(x, a).to(w.scalar_type()), w, b);
    return torch::matmul(h * h, v.t()).abs().square().sum(1);
  }
  Tensor w, b, v, a;
};

class ComplexParameters : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

/// Steps of two ranks against one on the whole batch, by every way that gradients take.
TEST_P(ComplexParameters, HaveTheGradientsOfTheWholeBatch) {
  const auto& [backend, ranks] = GetParam();
  constexpr int64_t kNone = int64_t{1} << 40;
  const DdpOptions all_ways[] = {{.direct_bytes = kNone},
                                 {.gradient_as_bucket_view = true, .direct_bytes = kNone},
                                 {.direct_bytes = 0},
                                 {.gradient_as_bucket_view = true, .direct_bytes = 0},
                                 {.find_unused_parameters = true},
                                 {.static_graph = true},
                                 {.comm_hook = "powersgd:start=0,min_compression_rate=0.1"}};
  for (const torch::Dtype dtype : {torch::kComplexDouble, torch::kComplexFloat}) {
    for (const DdpOptions& options : all_ways) {
      const auto make = [&] { return std::make_shared<ComplexImpl>(dtype); };
      const double tolerance = dtype == torch::kComplexDouble ? 1e-12 : 1e-4;
      run_beside_whole(
          ranks,
          make,
          make,
          [&](const ProcessGroup& group,
              const std::shared_ptr<ComplexImpl>& net,
              const std::shared_ptr<ComplexImpl>& whole) {
            DistributedDataParallel ddp(net, group, options);
            for (int step = 0; step < 3; ++step) {
              const Tensor x =
                  draw({12, 6}, 20 + static_cast<uint64_t>(step)).to(net->a.scalar_type());
              ddp.zero_grad();
              for (auto& parameter : whole->parameters()) parameter.mutable_grad() = Tensor();
              ddp->forward(share_of(x, group)).mean().backward();
              whole->forward(x).mean().backward();
              for (const char* name : {"w", "b", "v"}) {
                const Tensor got = net->named_parameters()[name].grad();
                const Tensor want = whole->named_parameters()[name].grad();
                const double largest = want.abs().max().item<double>();
                EXPECT_LE((got - want).abs().max().item<double>(), tolerance * largest)
                    << name << " of step " << step << ", " << options.comm_hook;
              }
            }
          },
          backend);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks,
                         ComplexParameters,
                         ::testing::Values(std::tuple{"thread", 2},
                                           std::tuple{"thread", 3},
                                           std::tuple{"shm", 2},
                                           std::tuple{"gloo", 2}));

struct TableImpl : torch::nn::Module {
  explicit TableImpl(bool sparse) {
    table = register_module("table",
                            torch::nn::Embedding(torch::nn::EmbeddingOptions(9, 4).sparse(sparse)));
    bag =
        register_module("bag",
                        torch::nn::EmbeddingBag(
                            torch::nn::EmbeddingBagOptions(7, 4).sparse(sparse).mode(torch::kSum)));
    head = register_module("head", torch::nn::Linear(4, 2));
  }
  Tensor forward(Tensor index) { return head(table(index).mean(1) + bag(index.remainder(7))); }
  torch::nn::Embedding table{nullptr};
  torch::nn::EmbeddingBag bag{nullptr};
  torch::nn::Linear head{nullptr};
};

class SparseGradients : public ::testing::TestWithParam<std::tuple<int, std::string, std::string>> {
};

TEST_P(SparseGradients, EqualDenseOnesOfTheWholeBatch) {
  const auto& [ranks, backend, hook] = GetParam();
  const auto make = [](bool sparse) {
    torch::manual_seed(2);
    auto net = std::make_shared<TableImpl>(sparse);
    net->to(torch::kDouble);
    return net;
  };
  run_beside_whole(
      ranks,
      [&] { return make(true); },
      [&] { return make(false); },
      [&, hook = hook](const ProcessGroup& group,
                       const std::shared_ptr<TableImpl>& net,
                       const std::shared_ptr<TableImpl>& whole) {
        DistributedDataParallel ddp(net, group, {.comm_hook = hook});
        torch::optim::SGD ours(net->parameters(), 0.05), theirs(whole->parameters(), 0.05);
        for (int step = 0; step < 4; ++step) {
          auto generator = torch::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(step));
          const Tensor index = torch::randint(0, 9, {12, 3}, generator, torch::kLong);
          ours.zero_grad();
          theirs.zero_grad();
          ddp->forward(share_of(index, group)).square().mean().backward();
          whole->forward(index).square().mean().backward();
          EXPECT_TRUE(net->table->weight.grad().is_sparse());
          EXPECT_TRUE(net->bag->weight.grad().is_sparse());
          ours.step();
          theirs.step();
        }
        for (const auto& item : whole->named_parameters()) {
          const Tensor difference = net->named_parameters()[item.key()] - item.value();
          EXPECT_LE(difference.abs().max().item<double>(), hook == "none" ? 1e-12 : 1e-2)
              << item.key();
        }
      },
      backend);
}

INSTANTIATE_TEST_SUITE_P(Ranks,
                         SparseGradients,
                         ::testing::Values(std::tuple{1, "thread", "none"},
                                           std::tuple{2, "thread", "none"},
                                           std::tuple{3, "thread", "none"},
                                           std::tuple{2, "gloo", "none"},
                                           std::tuple{3, "shm", "none"},
                                           std::tuple{2, "thread", "fp16"},
                                           std::tuple{2, "gloo", "bf16"}));

TEST(BroadcastCoalesced, BringsTensorsOfMixedDtypesFromEveryRoot) {
  for (const std::string backend : {"thread", "shm", "gloo"}) {
    run_ranks(
        3,
        [](ProcessGroup group) {
          for (int root = 0; root < 3; ++root) {
            std::vector<Tensor> tensors, expected;
            for (const auto dtype : {torch::kFloat, torch::kHalf, torch::kDouble, torch::kLong}) {
              for (int64_t i = 0; i < 4; ++i) {
                expected.push_back(
                    torch::full({10 * i}, 10.0 * root + static_cast<double>(i), dtype));
                tensors.push_back(group.rank() == root ? expected.back().clone()
                                                       : torch::zeros({10 * i}, dtype));
              }
            }
            c10d::broadcast_coalesced(group.c10d(), tensors, /*buffer_size=*/128, root);
            for (size_t i = 0; i < tensors.size(); ++i)
              EXPECT_TRUE(torch::equal(tensors[i], expected[i])) << root << ' ' << i;
          }
        },
        {.backend = backend});
  }
}
}  // namespace
}  // namespace muster
