// When gradients pass the Reducer by: see Note [Direct gradients].
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/direct_gradients.h"

#include "graphs.h"

namespace muster {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): its helpers are what is written here

using parallel::NamedTensors;

constexpr int64_t kOff = int64_t{1} << 40;

NamedTensors named(Graph& net) {
  NamedTensors all;
  for (const auto& item : net->named_parameters()) all.emplace_back(item.key(), item.value());
  return all;
}

TEST(DdpDirectGradients, AreChosenOnlyWhereNothingIsAskedOfTheBuckets) {
  Graph net = three_layers();
  const NamedTensors parameters = named(net);
  run_ranks(2, [&](ProcessGroup group) {
    const auto chosen = [&](const DdpOptions& options) {
      return parallel::DirectGradients::make(parameters, group, options) != nullptr;
    };
    EXPECT_TRUE(chosen({.direct_bytes = 0}));
    EXPECT_FALSE(chosen({}));  // all are smaller than that
    EXPECT_FALSE(chosen({.direct_bytes = kOff}));
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
              [&](ProcessGroup group) {
                EXPECT_EQ(parallel::DirectGradients::make(parameters, group, {.direct_bytes = 0}),
                          nullptr);
              },
              {.backend = ranks == 1 ? "shm" : "gloo"});
  }
}

}  // namespace
}  // namespace muster
