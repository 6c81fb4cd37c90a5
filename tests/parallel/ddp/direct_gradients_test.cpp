// Gradients that are averaged where they lie, without buckets.
#include "muster/parallel/ddp/direct_gradients.h"

#include <barrier>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/torch.h>

#include "muster/parallel/hook/comm_hook.h"

#include "tests/parallel/graphs.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): its helpers are what is written here
using ::testing::HasSubstr;

constexpr int64_t kNotDirect = int64_t{1} << 40;

class DirectGradients : public ::testing::TestWithParam<std::tuple<int, std::string>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  std::string backend() const { return std::get<1>(GetParam()); }
};

TEST_P(DirectGradients, EqualThoseOfOneDevice) {
  expect_equals_one_rank([] { return three_layers(); }, {.direct_bytes = 0}, ranks(), backend());
  // A part of the parameters, beside buckets.
  for (const bool views : {false, true}) {
    expect_equals_one_rank([] { return three_layers(); },
                           {.gradient_as_bucket_view = views, .direct_bytes = 100},
                           ranks(),
                           backend());
  }
  expect_equals_one_rank(
      [] { return three_layers(torch::kFloat); }, {.direct_bytes = 0}, ranks(), backend(), 1e-6);
}

TEST_P(DirectGradients, AddUpUnderNoSyncAndTheWholeSumIsAveraged) {
  run_three_layers(
      ranks(),
      [&](const ProcessGroup& group, const Graph& net, const Graph& whole) {
        DistributedDataParallel ddp(net, group, {.direct_bytes = 0});
        for (int step = 0; step < 3; ++step) {
          // Steps 0 and 1 start from nothing, step 2 from a gradient of the user's.
          for (Graph each : {net, whole}) {
            for (auto& parameter : each->parameters())
              parameter.mutable_grad() = step == 2 ? torch::ones_like(parameter) : Tensor();
          }
          for (int micro = 0; micro < 3; ++micro) {
            const Tensor x = draw({12, 6}, 7 + static_cast<uint64_t>(10 * step + micro));
            const auto scope = ddp.accumulate(micro, 3);
            ddp->forward(share_of(x, group)).square().mean().backward();
            whole->forward(x).square().mean().backward();
          }
          expect_same_gradients(*net, *whole, 1e-12);
        }
      },
      backend());
}

TEST_P(DirectGradients, OfUnevenSharesAreWeighed) {
  run_three_layers(
      ranks(),
      [&](const ProcessGroup& group, const Graph& net, const Graph& whole) {
        DistributedDataParallel ddp(net, group, {.direct_bytes = 0});
        const int rank = group.rank(), world = group.world_size();
        const Tensor x = draw({world * (world + 1) / 2, 6}, 3);  // rank r has r + 1 rows
        const Tensor mine = x.narrow(0, rank * (rank + 1) / 2, rank + 1);
        ddp.weigh(ddp->forward(mine).square().mean(), rank + 1).backward();
        whole->forward(x).square().mean().backward();
        expect_same_gradients(*net, *whole, 1e-12);
      },
      backend());
}

TEST_P(DirectGradients, ArePostedInOneOrderWhereRanksProduceThemInAnother) {
  // Two branches, of one shape: posted in the order of arrival they would be mixed up. On odd ranks
  // backward reaches them the other way round.
  const auto make = [](bool swapped) {
    return make_graph({{6, 6}, {6, 6}, {6, 6}}, [swapped](GraphImpl& self, Tensor x) {
      x = torch::tanh(self.layers[0](x));
      Tensor a, b;
      if (swapped) b = torch::sigmoid(self.layers[2](x));
      a = torch::tanh(self.layers[1](x));
      if (!swapped) b = torch::sigmoid(self.layers[2](x));
      return a * b;
    });
  };
  std::vector<std::vector<std::string>> orders(static_cast<size_t>(ranks()));
  run_beside_whole(
      ranks(),
      [&](int rank) { return make(rank % 2 == 1); },
      [&] { return make(false); },
      [&](const ProcessGroup& group, const Graph& net, const Graph& whole) {
        DistributedDataParallel ddp(net, group, {.direct_bytes = 0});
        auto& order = orders[static_cast<size_t>(group.rank())];
        for (const int layer : {1, 2}) {
          net->layers[layer]->weight.register_hook(
              [&order, layer](const Tensor&) { order.push_back("layer" + std::to_string(layer)); });
        }
        const Tensor x = draw({12, 6}, 9);
        for (int step = 0; step < 3; ++step) {
          ddp.zero_grad();
          whole->zero_grad();
          ddp->forward(share_of(x, group)).square().mean().backward();
          whole->forward(x).square().mean().backward();
          expect_same_gradients(*net, *whole, 1e-12);
        }
      },
      backend());
  if (ranks() > 1) {
    EXPECT_NE(orders[0], orders[1]);
  }
}

TEST_P(DirectGradients, ThatShareMemoryWithOthersAreAveragedInACopy) {
  // The gradients of `a` and of `b` are views of one tensor, which backward reads on, too.
  struct SharersImpl : torch::nn::Module {
    SharersImpl() {
      a = register_parameter("a", torch::full({12}, 0.5, torch::kDouble));
      b = register_parameter("b", torch::full({3, 4}, 0.25, torch::kDouble));
      c = register_parameter("c", torch::full({4, 3}, 2.0, torch::kDouble));
    }
    Tensor forward(Tensor x) {
      return (a.view({4, 3}) + b.view({4, 3}) + (c * x).view({12}).view({4, 3})) * x;
    }
    Tensor a, b, c;
  };
  std::vector<std::shared_ptr<SharersImpl>> nets;
  for (int rank = 0; rank < ranks(); ++rank) nets.push_back(std::make_shared<SharersImpl>());
  run_ranks(ranks(),
            [&](ProcessGroup group) {
              const auto net = nets[group.rank()];
              DistributedDataParallel ddp(net, group, {.direct_bytes = 0});
              for (int step = 0; step < 3; ++step) {
                ddp.zero_grad();
                Tensor mean = torch::zeros({4, 3}, torch::kDouble), squares = mean.clone();
                for (int rank = 0; rank < group.world_size(); ++rank) {
                  const Tensor x = draw({4, 3}, static_cast<uint64_t>(rank));
                  mean += x / group.world_size();
                  squares += x * x / group.world_size();
                }
                ddp->forward(draw({4, 3}, static_cast<uint64_t>(group.rank()))).sum().backward();
                EXPECT_TRUE(torch::allclose(net->a.grad(), mean.view({12}), 0, 1e-12));
                EXPECT_TRUE(torch::allclose(net->b.grad(), mean.view({3, 4}), 0, 1e-12));
                EXPECT_TRUE(torch::allclose(net->c.grad(), squares, 0, 1e-12));
              }
            },
            {.backend = backend()});
}

TEST_P(DirectGradients, MayGoToAGradientThatTheUserHasReplaced) {
  run_three_layers(
      ranks(),
      [&](const ProcessGroup& group, const Graph& net, const Graph& whole) {
        DistributedDataParallel ddp(net, group, {.direct_bytes = 0});
        const Tensor x = draw({12, 6}, 4);
        // Not contiguous, and a part of something larger.
        net->layers[0]->weight.mutable_grad() =
            torch::zeros({6, 5}, torch::kDouble).transpose(0, 1);
        net->layers[1]->weight.mutable_grad() =
            torch::zeros({9, 5}, torch::kDouble).narrow(0, 2, 4);
        const Tensor kept = net->layers[0]->weight.grad();
        ddp->forward(share_of(x, group)).square().mean().backward();
        whole->forward(x).square().mean().backward();
        expect_same_gradients(*net, *whole, 1e-12);
        EXPECT_TRUE(torch::equal(kept, net->layers[0]->weight.grad()));
      },
      backend());
}

INSTANTIATE_TEST_SUITE_P(Ranks,
                         DirectGradients,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4),
                                            ::testing::Values("thread", "shm")),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_ranks_" +
                                  std::get<1>(info.param);
                         });

/// Gradients of rank 0 after a step.
std::vector<Tensor> gradients_over(const std::string& backend,
                                   int ranks,
                                   torch::Dtype dtype,
                                   int64_t direct_bytes) {
  std::vector<Graph> nets;
  for (int rank = 0; rank < ranks; ++rank) nets.push_back(three_layers(dtype));
  run_ranks(ranks,
            [&](ProcessGroup group) {
              DistributedDataParallel ddp(
                  nets[group.rank()], group, {.direct_bytes = direct_bytes});
              const Tensor x = draw({12, 6}, 5).to(dtype);
              ddp->forward(share_of(x, group)).square().mean().backward();
            },
            {.backend = backend});
  std::vector<Tensor> gradients;
  for (const auto& parameter : nets[0]->parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

TEST(DdpDirectGradients, HaveTheSameBitsOverThreadsAndSharedMemoryAsInBuckets) {
  for (const auto dtype : {torch::kFloat, torch::kDouble}) {
    for (const int ranks : {2, 3, 4}) {
      const auto thread = gradients_over("thread", ranks, dtype, 0);
      const auto shm = gradients_over("shm", ranks, dtype, 0);
      const auto buckets = gradients_over("shm", ranks, dtype, kNotDirect);
      for (size_t i = 0; i < thread.size(); ++i) {
        EXPECT_TRUE(torch::equal(thread[i], shm[i])) << ranks << " ranks, parameter " << i;
        EXPECT_TRUE(torch::equal(shm[i], buckets[i])) << ranks << " ranks, parameter " << i;
      }
    }
  }
}

TEST(DdpDirectGradients, AParameterWithoutGradientIsNamedOnEveryRank) {
  // Large or small ones, all or some.
  for (const int64_t direct_bytes : {0, 100}) {
    for (const int left_out : {0, 1, 2}) {
      for (const char* backend : {"thread", "shm"}) {
        std::vector<Graph> nets;
        for (int rank = 0; rank < 3; ++rank) {
          nets.push_back(make_graph({{6, 6}, {6, 6}, {6, 6}},
                                    [left_out, calls = 0](GraphImpl& self, Tensor x) mutable {
                                      for (int layer = 0; layer < 3; ++layer) {
                                        if (calls == 0 || layer != left_out)
                                          x = torch::tanh(self.layers[layer](x));
                                      }
                                      ++calls;
                                      return x;
                                    }));
        }
        std::vector<std::string> errors(3);
        std::barrier<> all(3);
        run_ranks(3,
                  [&](ProcessGroup group) {
                    const muster::testing::LeaveTogether last{all};
                    DistributedDataParallel ddp(
                        nets[group.rank()], group, {.direct_bytes = direct_bytes});
                    const Tensor x = draw({2, 6}, static_cast<uint64_t>(group.rank()));
                    for (int step = 0; step < 2; ++step) ddp->forward(x).sum().backward();
                    errors[group.rank()] = error_of([&] { ddp->forward(x); });
                    EXPECT_EQ(error_of([&] { ddp->forward(x); }), errors[group.rank()]);
                  },
                  {.backend = backend});
        const std::string layer = "layer" + std::to_string(left_out);
        for (const std::string& error : errors) {
          EXPECT_THAT(error,
                      HasSubstr("2 parameters got no gradient in the last step: " + layer +
                                ".weight, " + layer + ".bias"));
        }
      }
    }
  }
}

TEST(DdpDirectGradients, RanksThatLeaveOutDifferentParametersAllSaySo) {
  std::vector<Graph> nets;
  for (int rank = 0; rank < 2; ++rank) {
    nets.push_back(make_graph({{6, 6}, {6, 6}}, [rank](GraphImpl& self, Tensor x) {
      return torch::tanh(self.layers[rank](x));
    }));
  }
  std::vector<std::string> errors(2);
  std::barrier<> all(2);
  run_ranks(2, [&](ProcessGroup group) {
    const muster::testing::LeaveTogether last{all};
    DistributedDataParallel ddp(nets[group.rank()], group, {.direct_bytes = 0});
    ddp->forward(draw({2, 6}, 0)).sum().backward();
    errors[group.rank()] = error_of([&] { ddp->forward(draw({2, 6}, 0)); });
  });
  EXPECT_THAT(errors[0], HasSubstr("last step: layer1.weight, layer1.bias"));
  EXPECT_THAT(errors[1], HasSubstr("last step: layer0.weight, layer0.bias"));
}

TEST(DdpDirectGradients, OneStepMayHaveTwoBackwards) {
  // Each reaches its own parameters: the smallest one in the first, large ones in both.
  const auto make = [] {
    return make_graph({{6, 2}, {6, 4}}, [](GraphImpl& self, Tensor x) {
      return torch::cat({self.layers[0](x), self.layers[1](x)}, 1);
    });
  };
  run_beside_whole(
      2, make, make, [&](const ProcessGroup& group, const Graph& net, const Graph& whole) {
        struct TwoImpl : torch::nn::Module {
          explicit TwoImpl(Graph graph) : net(register_module("net", graph)) {}
          std::vector<Tensor> forward(Tensor x) { return {net->layers[0](x), net->layers[1](x)}; }
          Graph net;
        };
        DistributedDataParallel ddp(std::make_shared<TwoImpl>(net), group, {.direct_bytes = 0});
        const Tensor x = draw({12, 6}, 8);
        for (int step = 0; step < 3; ++step) {
          ddp.zero_grad();
          whole->zero_grad();
          const auto outputs = ddp->forward(share_of(x, group));
          outputs[0].square().mean().backward();
          outputs[1].square().mean().backward();
          whole->layers[0](x).square().mean().backward();
          whole->layers[1](x).square().mean().backward();
          expect_same_gradients(*net, *whole, 1e-12);
        }
      });
}

TEST(DdpDirectGradients, AForwardThatThrowsAndOneWithoutBackwardDoNotDisturbTheNextStep) {
  run_three_layers(2, [&](const ProcessGroup& group, const Graph& net, const Graph& whole) {
    DistributedDataParallel ddp(net, group, {.direct_bytes = 0});
    const Tensor x = draw({12, 6}, 2);
    for (int step = 0; step < 3; ++step) {
      EXPECT_NE(error_of([&] { ddp->forward(torch::ones({2, 7}, torch::kDouble)); }), "");
      ddp->forward(share_of(x, group));
      ddp.zero_grad();
      whole->zero_grad();
      ddp->forward(share_of(x, group)).square().mean().backward();
      whole->forward(x).square().mean().backward();
      expect_same_gradients(*net, *whole, 1e-12);
    }
  });
}

TEST(DdpDirectGradients, AHookThatComesLaterAndJoinGetAllGradientsInBuckets) {
  run_three_layers(2, [&](const ProcessGroup& group, const Graph& net, const Graph& whole) {
    DistributedDataParallel ddp(net, group, {.direct_bytes = 0});
    const Tensor x = draw({12, 6}, 2);
    const auto step = [&] {
      ddp.zero_grad();
      whole->zero_grad();
      ddp->forward(share_of(x, group)).square().mean().backward();
      whole->forward(x).square().mean().backward();
      expect_same_gradients(*net, *whole, 1e-12);
    };
    step();
    ddp.join([&] {
      step();
      step();
    });
    int64_t seen = 0;
    ddp.register_comm_hook([&seen, group](c10d::GradBucket& bucket) {
      seen += bucket.getBuffer().numel();
      bucket.getBufferRef().div_(group.world_size());
      std::vector<Tensor> sum{bucket.getBuffer()};
      return parallel::BucketReduction(group.c10d()->allreduce(sum));
    });
    step();
    int64_t all = 0;
    for (const auto& parameter : net->parameters()) all += parameter.numel();
    EXPECT_EQ(seen, all);
  });
}

}  // namespace
}  // namespace muster
