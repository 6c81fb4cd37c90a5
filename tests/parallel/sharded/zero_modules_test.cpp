// What ZeRO makes of modules: errors, where they start from, how their weights lie in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/parallel/sharded/zero.h"
#include "muster/testing/run_ranks.h"

#include "tests/parallel/sharded/zero_nets.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::DistributedDataParallel;
using parallel::ShardedDataParallel;
using test::batch_of;
using test::bit_equal;
using test::copies;
using test::error_of;
using test::RandomNet;
using test::state_of;
using ::testing::HasSubstr;

using Tensors = std::vector<torch::Tensor>;

TEST(ZeroModules, ThatDifferAreRefusedByNameOnEveryRank) {
  std::vector<torch::nn::Linear> nets{torch::nn::Linear(3, 4), torch::nn::Linear(3, 5)};
  const auto errors = muster::testing::rank_errors(
      2, [&](ProcessGroup group) { ShardedDataParallel zero(nets[group.rank()], group, {}); });
  for (const std::string& error : errors)
    EXPECT_THAT(error,
                HasSubstr("rank 0 has parameter weight float32[4, 3]; rank 1 has parameter weight "
                          "float32[5, 3]"));
}

TEST(ZeroModules, StartFromRankZerosWeightsAndBuffersFixedOnesToo) {
  std::vector<RandomNet> nets{RandomNet(2), RandomNet(2)};
  for (RandomNet& net : nets) net->linears[0]->weight.requires_grad_(false);
  {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& tensor : state_of(*nets[1])) tensor.add_(1);
  }
  const Tensors want = copies(state_of(*nets[0]));
  run_ranks(2, [&](ProcessGroup group) {
    ShardedDataParallel zero(nets[group.rank()], group, {.stage = 2});
    zero.core().before_forward();
  });
  EXPECT_TRUE(bit_equal(state_of(*nets[1]), want));
}

/// Convolutions whose weights lie in memory with channels last.
torch::nn::Sequential convolutions() {
  torch::manual_seed(5);
  torch::nn::Conv2d first(torch::nn::Conv2dOptions(3, 20, 3));
  torch::nn::Conv2d second(torch::nn::Conv2dOptions(20, 7, 3));
  for (const torch::Tensor& weight : {first->weight, second->weight})
    weight.set_data(weight.detach().contiguous(at::MemoryFormat::ChannelsLast));
  return torch::nn::Sequential(first, torch::nn::Tanh(), second);
}

/// Three steps of `step(group, net, images)`; the weights after them.
template <class MakeStep>
Tensors train_convolutions(const MakeStep& make_step) {
  std::vector<torch::nn::Sequential> nets{convolutions(), convolutions(), convolutions()};
  run_ranks(3, [&](ProcessGroup group) { make_step(group, nets[group.rank()]); });
  return copies(nets[0]->parameters());
}

torch::Tensor images_of(const ProcessGroup& group, int step) {
  auto generator =
      torch::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(10 * step + group.rank()));
  return torch::randn({2, 3, 7, 7}, generator).contiguous(at::MemoryFormat::ChannelsLast);
}

TEST(ZeroModules, MayHaveTheirChannelsLast) {
  const Tensors want = train_convolutions([](ProcessGroup group, torch::nn::Sequential net) {
    DistributedDataParallel ddp(net, group);
    torch::optim::Adam adam(net->parameters(), 0.01);
    for (int step = 0; step < 3; ++step) {
      adam.zero_grad();
      ddp->forward(images_of(group, step)).pow(2).mean().backward();
      adam.step();
    }
  });
  ASSERT_FALSE(want[0].is_contiguous());
  for (const int stage : {1, 2}) {
    const Tensors got = train_convolutions([&](ProcessGroup group, torch::nn::Sequential net) {
      ShardedDataParallel zero(net, group, {.stage = stage, .bucket_bytes = 1000});
      torch::optim::Adam adam(zero.shard(), 0.01);
      for (int step = 0; step < 3; ++step) {
        zero.zero_grad();
        zero->forward(images_of(group, step)).pow(2).mean().backward();
        zero.step(adam);
      }
      // A state that equals the parameters comes together as they are, and apart again.
      const auto& shards = zero.core().parameters();
      parallel::NamedTensors state;
      for (const auto& [name, piece] : shards.shard()) state.emplace_back("copy/" + name, piece);
      for (const auto& [name, whole] : shards.gather(state)) {
        const torch::Tensor& parameter = shards.parameter(name.substr(5));
        EXPECT_TRUE(torch::equal(whole, parameter));
        EXPECT_EQ(whole.strides(), parameter.strides());
      }
      for (const auto& [name, piece] : shards.shard())
        EXPECT_TRUE(
            torch::equal(shards.piece_of(name, shards.parameter(name).contiguous()), piece));
    });
    EXPECT_TRUE(bit_equal(got, want)) << "stage " << stage;
  }
}

// A rank's tensors in inference mode are not to be written to by a peer that is another thread.
TEST(ZeroModules, AndDdpsRunInInferenceModeWithBuffers) {
  unsigned seed = 0;
  while (RandomNet(seed)->buffers().empty()) ++seed;
  for (const int stage : {0, 1, 2, 3}) {
    std::vector<RandomNet> nets{RandomNet(seed), RandomNet(seed)};
    run_ranks(2, [&](ProcessGroup group) {
      RandomNet net = nets[group.rank()];
      net->eval();
      const torch::Tensor rows = batch_of(0, 0, 1, torch::kFloat);
      const auto run = [&](auto& wrapped) {
        for (int i = 0; i < 3; ++i) {
          const c10::InferenceMode inference;
          (void)wrapped->forward(rows);
        }
        EXPECT_TRUE(wrapped->forward(rows).requires_grad());
      };
      if (stage == 0) {
        parallel::DistributedDataParallel ddp(net, group);
        return run(ddp);
      }
      parallel::ZeroOptions options{.stage = stage};
      if (stage == 3) options.units = net->units();
      ShardedDataParallel zero(net, group, options);
      run(zero);
    });
  }
}

TEST(ZeroModules, WithoutAParameterOrWithAnUnknownStageAreRefused) {
  run_ranks(1, [](ProcessGroup group) {
    EXPECT_THAT(error_of([&] { ShardedDataParallel zero(torch::nn::Flatten(), group, {}); }),
                HasSubstr("at least one parameter"));
    EXPECT_THAT(
        error_of([&] { ShardedDataParallel zero(torch::nn::Linear(2, 2), group, {.stage = 4}); }),
        HasSubstr("ZeRO stage: 1 (optimizer state), 2 (and gradients) or 3 (and weights) (got 4)"));
  });
}

}  // namespace
}  // namespace muster
