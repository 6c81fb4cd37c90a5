// The census of graphs' nodes, and operators that take graphs of earlier iterations.
#include "muster/memory/allocator/nodes.h"

#include <algorithm>
#include <string_view>
#include <thread>
#include <vector>

#include <torch/csrc/autograd/anomaly_mode.h>

#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/allocator/names.h"
#include "muster/memory/allocator/operators.h"
#include "muster/memory/allocator/scope.h"

namespace muster::memory {
namespace {

using torch::autograd::AnomalyMode;

/// Programs that leak, in tests before, may have left others alive.
template <class Is>
int64_t live_nodes_that(Is is) {
  return std::ranges::count_if(live_nodes(), is);
}

int64_t live_nodes_of(std::string_view scope) {
  return live_nodes_that([&](const LiveNode& node) { return name_of(node.scope) == scope; });
}

TEST(NodeCensus, CountsNodesFromTheirBirthToTheirDeath) {
  const Recording recording(Level::kTags);
  const NodeCensus census;
  const int64_t start = live_node_count(), of_loss = live_nodes_of("loss");
  const at::Tensor weight = torch::ones({3}, torch::requires_grad());
  {
    const Scope scope("loss");
    at::Tensor loss = (weight * 2).sum();
    // mul, sum, and the weight's accumulator.
    EXPECT_EQ(live_node_count() - start, 3);
    EXPECT_EQ(live_nodes_of("loss") - of_loss, 3);
    loss.backward();
    loss = at::Tensor();
  }
  EXPECT_EQ(live_node_count(), start);
}

TEST(NodeCensus, AChainOfHistoryGrowsByItsNodes) {
  const NodeCensus census;
  const at::Tensor weight = torch::ones({3}, torch::requires_grad());
  at::Tensor total = weight.sum();
  const int64_t start = live_node_count();
  for (int i = 0; i < 10; ++i) total = total + 1;
  EXPECT_EQ(live_node_count() - start, 10);
}

TEST(NodeCensus, GradientsAreTheSameWithIt) {
  torch::manual_seed(3);
  const at::Tensor weight = torch::randn({8, 8}, torch::requires_grad());
  const auto gradient = [&weight] {
    weight.mutable_grad() = at::Tensor();
    weight.matmul(weight).tanh().sum().backward();
    return weight.grad().clone();
  };
  const at::Tensor without = gradient();
  const NodeCensus census;
  EXPECT_TRUE(gradient().equal(without));
}

TEST(NodeCensus, LeavesAnomalyModeAsItWas) {
  ASSERT_FALSE(AnomalyMode::is_enabled());
  {
    const NodeCensus outer;
    const NodeCensus inner;
    EXPECT_TRUE(AnomalyMode::is_enabled());
    EXPECT_FALSE(AnomalyMode::should_check_nan());
  }
  EXPECT_FALSE(AnomalyMode::is_enabled());
  const torch::autograd::DetectAnomalyGuard hunting;
  { const NodeCensus census; }
  EXPECT_TRUE(AnomalyMode::is_enabled());
  EXPECT_TRUE(AnomalyMode::should_check_nan());
}

TEST(NodeCensus, NodesMadeByABackwardAreToldApart) {
  const NodeCensus census;
  const Recording recording(Level::kTags);
  const auto of_backward = [] {
    return live_nodes_that([](const LiveNode& node) { return node.in_backward; });
  };
  const int64_t before = of_backward();
  const at::Tensor weight = torch::ones({3}, torch::requires_grad());
  const auto gradient =
      torch::autograd::grad({weight.square().sum()}, {weight}, {}, /*retain_graph=*/true, true);
  EXPECT_GT(of_backward(), before);
}

TEST(NodeCensus, ThreadsMakeAndDropNodesOfEachOther) {
  const NodeCensus census;
  const int64_t start = live_node_count();
  const at::Tensor weight = torch::ones({3}, torch::requires_grad());
  std::vector<at::Tensor> made(4);
  std::vector<std::thread> threads;
  for (at::Tensor& one : made) {
    threads.emplace_back([&one, &weight] {
      one = weight.sum();
      for (int i = 0; i < 100; ++i) one = one + 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(live_node_count() - start, 4 * 101);
  threads.clear();
  for (at::Tensor& one : made) threads.emplace_back([&one] { one = at::Tensor(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(live_node_count(), start);
}

TEST(Operators, OneThatTakesAGraphOfAnEarlierIterationIsNamed) {
  const Recording recording(Level::kLayers);
  take_chained_operators();
  const at::Tensor weight = torch::ones({3}, torch::requires_grad());
  set_memory_iteration(1);
  at::Tensor total = weight.sum();
  total = total + weight.sum();
  EXPECT_TRUE(take_chained_operators().empty());
  set_memory_iteration(2);
  {
    const Scope scope("metrics");
    total = total + weight.sum();
  }
  const auto chained = take_chained_operators();
  ASSERT_EQ(chained.size(), 1U);
  EXPECT_EQ(chained[0].scope, "metrics");
  EXPECT_EQ(chained[0].op, "aten::add");
}

TEST(Operators, ABackwardThroughEarlierIterationsIsCounted) {
  const Recording recording(Level::kLayers);
  const at::Tensor weight = torch::ones({3}, torch::requires_grad());
  set_memory_iteration(1);
  at::Tensor state = weight * 2;
  state.sum().backward({}, /*retain_graph=*/true);
  take_backward_nodes();
  set_memory_iteration(2);
  state = state * weight;
  state.sum().backward({}, /*retain_graph=*/true);
  const BackwardNodes nodes = take_backward_nodes();
  EXPECT_EQ(nodes.of_earlier_iterations, 1);  // the first product
  EXPECT_EQ(nodes.ran, 4);                    // it, the second, the sum, the accumulator
}

}  // namespace
}  // namespace muster::memory
