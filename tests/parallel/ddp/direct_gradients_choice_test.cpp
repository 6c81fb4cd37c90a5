// When gradients pass the Reducer by: see Note [Direct gradients].
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/ddp/direct_gradients.h"

#include "tests/parallel/graphs.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): its helpers are what is written here

using parallel::NamedTensors;
using ::testing::HasSubstr;

constexpr int64_t kNeverDirect = int64_t{1} << 40;

NamedTensors named(Graph& net) {
  NamedTensors all;
  for (const auto& item : net->named_parameters()) all.emplace_back(item.key(), item.value());
  return all;
}

TEST(DdpDirectGradients, AreChosenOnlyWhereNothingIsAskedOfTheBuckets) {
  run_ranks(2, [](ProcessGroup group) {
    Graph net = three_layers();
    const NamedTensors parameters = named(net);
    const auto chosen = [&](const DdpOptions& options) {
      return parallel::DirectGradients::make(parameters, group, options) != nullptr;
    };
    EXPECT_TRUE(chosen({.direct_bytes = 0}));
    EXPECT_FALSE(chosen({}));  // all are smaller than that
    EXPECT_FALSE(chosen({.direct_bytes = kNeverDirect}));
    EXPECT_FALSE(chosen({.find_unused_parameters = true, .direct_bytes = 0}));
    EXPECT_TRUE(chosen({.gradient_as_bucket_view = true, .direct_bytes = 0}));
    EXPECT_FALSE(chosen({.static_graph = true, .direct_bytes = 0}));
    EXPECT_FALSE(chosen({.bucket_bytes_cap = parallel::kAutoBucketBytes, .direct_bytes = 0}));
    EXPECT_FALSE(chosen({.direct_bytes = 0, .comm_hook = "fp16"}));
    EXPECT_FALSE(chosen({.direct_bytes = 0, .sparse_gradients = {"layer0.weight"}}));
    EXPECT_FALSE(chosen({.direct_bytes = 30 * 8}));  // most bytes are in small ones
    const auto direct = parallel::DirectGradients::make(parameters, group, {.direct_bytes = 160});
    ASSERT_NE(direct, nullptr);
    EXPECT_EQ(direct->small().size(), 4U);  // all but the weights of layers 0 and 1
  });
  for (const int ranks : {1, 2}) {
    run_ranks(ranks,
              [](ProcessGroup group) {
                Graph net = three_layers();
                EXPECT_EQ(parallel::DirectGradients::make(named(net), group, {.direct_bytes = 0}),
                          nullptr);
              },
              {.backend = ranks == 1 ? "shm" : "gloo"});
  }
}

/// The same values, by columns.
void transpose_memory(Tensor parameter) {
  parameter.set_data(parameter.detach().t().contiguous().t());
}

TEST(DdpDirectGradients, AreChosenByAllRanksOrByNone) {
  std::vector<Graph> nets{three_layers(), three_layers(), three_layers()};
  transpose_memory(nets[1]->layers[1]->weight);
  run_ranks(3, [&](ProcessGroup group) {
    const NamedTensors parameters = named(nets[group.rank()]);
    EXPECT_EQ(parallel::DirectGradients::make(parameters, group, {.direct_bytes = 0}), nullptr);
  });
}

TEST(DdpDirectGradients, OfAParameterThatOneRankLaysOutDifferentlyAreRefusedByName) {
  std::vector<Graph> nets{three_layers(), three_layers()};
  transpose_memory(nets[1]->layers[1]->weight);
  const auto errors = muster::testing::rank_errors(2, [&](ProcessGroup group) {
    DistributedDataParallel(nets[group.rank()], group, {.direct_bytes = 0});
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, HasSubstr("parameter layer1.weight float64[4, 5] strides [1, 4]"));
}

TEST(DdpDirectGradients, GoThroughBucketsWhereNoRankHasItsParametersInOrder) {
  const auto transposed = [] {
    Graph net = three_layers();
    transpose_memory(net->layers[1]->weight);
    return net;
  };
  run_beside_whole(
      2,
      transposed,
      [] { return three_layers(); },
      [&](const ProcessGroup& group, const Graph& net, const Graph& whole) {
        DistributedDataParallel ddp(net, group, {.direct_bytes = 0});
        const Tensor x = draw({12, 6}, 2);
        ddp->forward(share_of(x, group)).square().mean().backward();
        whole->forward(x).square().mean().backward();
        expect_same_gradients(*net, *whole, 1e-12);
      });
}

TEST(DdpDirectGradients, OfSmallParametersAreAveragedInTheBucketsThatTheyAreViewsOf) {
  run_three_layers(3, [&](const ProcessGroup& group, const Graph& net, const Graph& whole) {
    DistributedDataParallel ddp(net, group, {.gradient_as_bucket_view = true, .direct_bytes = 160});
    const Tensor x = draw({12, 6}, 2);
    for (int step = 0; step < 4; ++step) {
      if (step != 2) {  // step 2 adds to what is there
        ddp.zero_grad();
        for (auto& parameter : whole->parameters()) parameter.mutable_grad() = Tensor();
      }
      ddp->forward(share_of(x, group)).square().mean().backward();
      whole->forward(x).square().mean().backward();
      expect_same_gradients(*net, *whole, 1e-12);
    }
  });
}

}  // namespace
}  // namespace muster
