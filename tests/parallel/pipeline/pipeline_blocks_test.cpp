// Pipelines of blocks of many kinds: several tensors, ties, generators, outputs that nobody uses.
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/text.h"
#include "muster/parallel/pipeline/pipeline.h"

#include "tests/parallel/pipeline/nets.h"
#include "tests/support/distance.h"

namespace muster {
namespace {

using parallel::block;
using parallel::Block;
using parallel::blocks_of;
using parallel::Pipeline;
using parallel::Tensors;
using test::Chain;
using test::difference;
using test::gradients_of;
using test::gradients_on_one_device;
using test::ranks_on_cpu;
using test::squares;

/// A U: what goes in at the top comes out at the bottom, through blocks that do not touch it; and a
/// tensor of whole numbers, which no gradient goes through.
TEST(PipelineBlocks, SkipConnectionsGoThroughTheBlocksBetween) {
  torch::manual_seed(17);
  std::vector<torch::nn::Linear> layers;
  for (int i = 0; i < 4; ++i) {
    layers.push_back(torch::nn::Linear(3, 3));
    layers.back()->to(torch::kDouble);
  }
  const auto whole = [&](const torch::Tensor& x, const torch::Tensor& number) {
    const torch::Tensor a = layers[0](x), b = layers[1](a).tanh(), c = layers[2](b).tanh();
    return layers[3](c + a) * number.unsqueeze(1);
  };
  std::vector<Block> blocks;
  const auto add = [&](int i, auto forward) {
    blocks.push_back({concat("b", i), {layers[size_t(i)].ptr()}, forward});
  };
  add(0, [l = layers[0]](const Tensors& in) mutable -> Tensors {
    const torch::Tensor a = l(in[0]);
    return {a, a, in[1]};
  });
  for (int i : {1, 2})
    add(i, [l = layers[size_t(i)]](const Tensors& in) mutable -> Tensors {
      return {l(in[0]).tanh(), in[1], in[2]};
    });
  add(3, [l = layers[3]](const Tensors& in) mutable -> Tensors {
    return {l(in[0] + in[1]) * in[2].unsqueeze(1)};
  });
  const torch::Tensor x = torch::randn({6, 3}, torch::kDouble),
                      y = torch::randn({6, 3}, torch::kDouble);
  const torch::Tensor number = torch::randint(5, {6});
  std::vector<torch::Tensor> parameters;
  for (const auto& layer : layers)
    for (const auto& parameter : layer->parameters()) parameters.push_back(parameter);
  squares({whole(x, number)}, {y}).backward();
  const auto expected = gradients_of(parameters);
  for (const std::string schedule : {"gpipe", "1f1b", "zb1p"}) {
    Pipeline pipe(blocks, ranks_on_cpu(4), &squares, {.schedule = schedule, .micro_batches = 4});
    pipe.zero_grad();
    pipe.step({x, number}, {y});
    EXPECT_LE(difference(gradients_of(parameters), expected), 1e-12) << schedule;
    EXPECT_LE((pipe.forward({x, number})[0] - whole(x, number)).abs().max().item<double>(), 1e-12);
  }
}

TEST(PipelineBlocks, TiedParametersAreOne) {
  // Tokens to vectors and, by the same table, back to scores.
  const auto make = [] {
    torch::manual_seed(19);
    struct Parts {
      torch::nn::Embedding table{7, 4};
      torch::nn::Linear middle{4, 4};
      torch::nn::Linear scores{torch::nn::LinearOptions(4, 7).bias(false)};
    } parts;
    parts.table->to(torch::kDouble);
    parts.middle->to(torch::kDouble);
    parts.scores->to(torch::kDouble);
    return parts;
  };
  auto alone = make(), cut = make();
  const auto loss = [](const Tensors& out, const Tensors& target) {
    return torch::nn::functional::cross_entropy(out[0], target[0]);
  };
  Pipeline pipe(
      {block("table", cut.table), block("middle", cut.middle), block("scores", cut.scores)},
      ranks_on_cpu(3),
      loss,
      {.micro_batches = 3, .tied = {{"scores.weight", "table.weight"}}});
  EXPECT_EQ(pipe.parameters().size(), 3U);
  torch::optim::Adam one({alone.table->weight, alone.middle->weight, alone.middle->bias}, 0.05);
  torch::optim::Adam two(pipe.parameters(), 0.05);
  torch::manual_seed(23);
  for (int i = 0; i < 10; ++i) {
    const torch::Tensor tokens = torch::randint(7, {8}), next = torch::randint(7, {8});
    one.zero_grad();
    const torch::Tensor hidden = alone.middle(alone.table(tokens));
    loss({hidden.matmul(alone.table->weight.t())}, {next}).backward();
    one.step();
    two.zero_grad();
    pipe.step({tokens}, {next});
    two.step();
  }
  EXPECT_LE(difference({cut.table->weight, cut.middle->weight},
                       {alone.table->weight, alone.middle->weight}),
            1e-12);
  pipe.forward({torch::randint(7, {2})});
  EXPECT_TRUE(torch::equal(cut.table->weight, cut.scores->weight));
}

/// A dropout with a generator of its own, as models::Dropout.
struct OwnDropoutImpl : torch::nn::Module {
  explicit OwnDropoutImpl(uint64_t seed) : generator(at::detail::createCPUGenerator(seed)) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return x * torch::empty_like(x).bernoulli_(0.5, generator);
  }
  at::Generator generator;
};
TORCH_MODULE(OwnDropout);

TEST(PipelineBlocks, CheckpointedDropoutsDrawTheSameAgain) {
  const auto of = [](bool checkpointed) {
    Chain chain(2, 41, torch::kDouble, /*in_place=*/false);
    std::vector<Block> blocks = blocks_of(chain.net);
    for (const size_t at : {1, 3}) {
      OwnDropout dropout(at);
      Block drop = block(concat("drop", at), dropout);
      drop.generators = {dropout->generator};
      blocks.insert(blocks.begin() + std::ptrdiff_t(at), drop);
    }
    Pipeline pipe(blocks,
                  ranks_on_cpu(2),
                  &squares,
                  {.micro_batches = 4,
                   .first_block = {0, 2},
                   .checkpointed = std::vector<bool>(4, checkpointed)});
    pipe.step({chain.inputs(8)}, {chain.targets(8)});
    return gradients_of(pipe.parameters());
  };
  const auto plain = of(false), again = of(true);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(torch::equal(plain[i], again[i])) << i;
}

TEST(PipelineBlocks, AnOutputThatTheNextStageIgnoresCountsNothing) {
  torch::nn::Linear first(3, 4), last(4, 2);
  first->to(torch::kDouble);
  last->to(torch::kDouble);
  const torch::Tensor x = torch::randn({4, 3}, torch::kDouble),
                      y = torch::randn({4, 2}, torch::kDouble);
  squares({last(first(x))}, {y}).backward();
  const std::vector<torch::Tensor> parameters{first->weight, first->bias, last->weight, last->bias};
  const auto expected = gradients_of(parameters);
  for (const std::string schedule : {"1f1b", "zb1p"}) {
    for (const torch::Tensor& parameter : parameters) parameter.mutable_grad() = torch::Tensor();
    Pipeline pipe({{"first",
                    {first.ptr()},
                    [first](const Tensors& in) mutable -> Tensors {
                      const torch::Tensor h = first(in[0]);
                      return {h, h.mean()};
                    }},
                   {"last",
                    {last.ptr()},
                    [last](const Tensors& in) mutable -> Tensors { return {last(in[0])}; }}},
                  ranks_on_cpu(2),
                  &squares,
                  {.schedule = schedule, .micro_batches = 2});
    pipe.step({x}, {y});
    EXPECT_LE(difference(gradients_of(parameters), expected), 1e-12);
  }
}

TEST(PipelineBlocks, ASequentialMayBeABlock) {
  Chain chain(3, 43);
  const torch::Tensor x = chain.inputs(4), y = chain.targets(4);
  const auto expected = gradients_on_one_device(chain, x, y);
  Pipeline pipe({block("all", chain.net)}, ranks_on_cpu(1), &squares, {.micro_batches = 2});
  pipe.step({x}, {y});
  EXPECT_LE(difference(gradients_of(chain.net->parameters()), expected), 1e-12);
}

}  // namespace
}  // namespace muster
