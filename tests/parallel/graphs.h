// Small modules made of a function, and their gradients on many ranks against one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/ddp/ddp.h"
#include "muster/testing/run_ranks.h"

namespace muster::test {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::DdpOptions;
using parallel::DistributedDataParallel;
using torch::Tensor;

/// A module whose forward is a function: `layers` are registered as layer0, layer1, …
struct GraphImpl : torch::nn::Module {
  using Forward = std::function<Tensor(GraphImpl&, Tensor)>;
  GraphImpl(std::vector<torch::nn::Linear> linear, Forward forward)
      : layers(std::move(linear)), run(std::move(forward)) {
    for (size_t i = 0; i < layers.size(); ++i)
      register_module("layer" + std::to_string(i), layers[i]);
  }
  Tensor forward(Tensor x) { return run(*this, std::move(x)); }
  std::vector<torch::nn::Linear> layers;
  Forward run;
};
using Graph = std::shared_ptr<GraphImpl>;

inline Graph make_graph(const std::vector<std::pair<int64_t, int64_t>>& shapes,
                        GraphImpl::Forward forward,
                        torch::Dtype dtype = torch::kDouble) {
  torch::manual_seed(5);
  std::vector<torch::nn::Linear> layers;
  for (const auto& [in, out] : shapes) layers.emplace_back(in, out);
  auto graph = std::make_shared<GraphImpl>(layers, std::move(forward));
  graph->to(dtype);
  return graph;
}

inline Tensor draw(at::IntArrayRef sizes, uint64_t seed) {
  return torch::randn(
      sizes, torch::make_generator<at::CPUGeneratorImpl>(seed), torch::dtype(torch::kDouble));
}

inline Tensor share_of(const Tensor& whole, const ProcessGroup& group) {
  const int64_t rows = whole.size(0) / group.world_size();
  return whole.narrow(0, rows * group.rank(), rows);
}

inline void expect_same_gradients(torch::nn::Module& ours,
                                  torch::nn::Module& whole,
                                  double tolerance) {
  for (const auto& item : whole.named_parameters()) {
    const Tensor expected = item.value().grad(), got = ours.named_parameters()[item.key()].grad();
    const bool zero = !expected.defined() || expected.abs().max().item<double>() == 0;
    if (!got.defined()) {
      EXPECT_TRUE(zero) << item.key() << " has no gradient";
      continue;
    }
    const Tensor reference = expected.defined() ? expected : torch::zeros_like(got);
    EXPECT_LE((got - reference).abs().max().item<double>(), tolerance) << item.key();
  }
}

/// Runs `rank_main(group, net, whole)` on each rank: its own net, and one beside it that sees what
/// all ranks see. They are made before any rank starts, by make_net() or make_net(rank), and by
/// make_whole().
template <class MakeNet, class MakeWhole, class RankMain>
void run_beside_whole(int ranks,
                      const MakeNet& make_net,
                      const MakeWhole& make_whole,
                      const RankMain& rank_main,
                      const std::string& backend = "thread") {
  using Net = std::decay_t<decltype(make_whole())>;
  std::vector<Net> nets, wholes;
  for (int rank = 0; rank < ranks; ++rank) {
    if constexpr (std::is_invocable_v<const MakeNet&, int>) {
      nets.push_back(make_net(rank));
    } else {
      nets.push_back(make_net());
    }
    wholes.push_back(make_whole());
  }
  run_ranks(ranks,
            [&](ProcessGroup group) {
              const auto rank = static_cast<size_t>(group.rank());
              rank_main(group, nets[rank], wholes[rank]);
            },
            {.backend = backend});
}

/// Steps of `ranks` ranks with `options`, each step compared with one rank on the whole batch.
inline void expect_equals_one_rank(const std::function<Graph()>& make,
                                   const DdpOptions& options,
                                   int ranks,
                                   const std::string& backend = "thread",
                                   double tolerance = 1e-12,
                                   int steps = 4) {
  run_beside_whole(
      ranks,
      make,
      make,
      [&](const ProcessGroup& group, const Graph& net, const Graph& whole) {
        const auto dtype = net->parameters()[0].scalar_type();
        DistributedDataParallel ddp(net, group, options);
        for (int step = 0; step < steps; ++step) {
          const int64_t width = net->layers[0]->options.in_features();
          const Tensor x = draw({12, width}, 40 + static_cast<uint64_t>(step)).to(dtype);
          ddp.zero_grad();
          for (auto& parameter : whole->parameters()) parameter.mutable_grad() = Tensor();
          ddp->forward(share_of(x, group)).square().mean().backward();
          whole->forward(x).square().mean().backward();
          expect_same_gradients(*net, *whole, tolerance);
          const torch::NoGradGuard no_grad;
          for (Graph each : {net, whole}) {
            for (auto& parameter : each->parameters()) {
              if (parameter.grad().defined()) parameter.sub_(parameter.grad(), 0.1);
            }
          }
        }
      },
      backend);
}

/// Linear layers with tanh between them.
inline Graph three_layers(torch::Dtype dtype = torch::kDouble) {
  return make_graph(
      {{6, 5}, {5, 4}, {4, 3}},
      [](GraphImpl& self, Tensor x) {
        x = torch::tanh(self.layers[0](x));
        return self.layers[2](torch::tanh(self.layers[1](x)));
      },
      dtype);
}

template <class RankMain>
void run_three_layers(int ranks, const RankMain& rank_main, const std::string& backend = "thread") {
  const auto make = [] { return three_layers(); };
  run_beside_whole(ranks, make, make, rank_main, backend);
}

}  // namespace muster::test
