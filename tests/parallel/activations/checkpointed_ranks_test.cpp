// Activation checkpointing below DDP, ZeRO and DataParallel, and with batch norms over ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/activations/blocks.h"
#include "muster/parallel/activations/checkpointed.h"
#include "muster/parallel/batch_norm/batch_norms_over_ranks.h"
#include "muster/parallel/ddp/ddp.h"
#include "muster/parallel/precision/autocast.h"
#include "muster/parallel/precision/grad_scaler.h"
#include "muster/parallel/replicas/data_parallel.h"
#include "muster/parallel/sharded/zero.h"
#include "muster/testing/run_ranks.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::checkpointed;
using parallel::RecomputeOptions;
using Tensors = std::vector<torch::Tensor>;

constexpr int64_t kWide = 24;

/// Ranks that are threads have one default generator, from which nothing is drawn here.
const RecomputeOptions kNoDraws{.generators = std::vector<at::Generator>{}};

struct RankBlockImpl : torch::nn::Module {
  RankBlockImpl() {
    linear = register_module("linear", torch::nn::Linear(kWide, kWide));
    norm = register_module("norm", torch::nn::BatchNorm1d(kWide));
  }
  torch::Tensor forward(const torch::Tensor& x) { return norm(linear(x)).tanh() + x; }
  torch::nn::Linear linear{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(RankBlock);

struct RankNetImpl : torch::nn::Module {
  explicit RankNetImpl(bool checkpoint) : again(checkpoint) {
    for (int i = 0; i < 3; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), RankBlock()));
    head = register_module("head", torch::nn::Linear(kWide, 2));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (RankBlock& block : blocks)
      x = again ? checkpointed(kNoDraws, block, x) : block->forward(x);
    return head->forward(x);
  }
  bool again;
  std::vector<RankBlock> blocks;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(RankNet);

torch::Tensor rows(int rank, int step) {
  auto generator =
      torch::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(100 * step + rank));
  return torch::randn({6, kWide}, generator);
}

Tensors copies_of(const torch::nn::Module& net) {
  Tensors out;
  for (const torch::Tensor& tensor : net.parameters()) out.push_back(tensor.detach().clone());
  for (const torch::Tensor& tensor : net.buffers()) out.push_back(tensor.clone());
  return out;
}

void expect_equal(const std::vector<Tensors>& plain, const std::vector<Tensors>& again) {
  ASSERT_EQ(plain.size(), again.size());
  for (size_t rank = 0; rank < plain.size(); ++rank) {
    ASSERT_EQ(plain[rank].size(), again[rank].size());
    for (size_t i = 0; i < plain[rank].size(); ++i)
      EXPECT_TRUE(torch::equal(plain[rank][i], again[rank][i])) << rank << ", " << i;
  }
}

/// What every rank ends with, without and with checkpoints.
template <class Train>
void expect_same_on_ranks(Train&& train) {
  const auto trained = [&](bool checkpoint) {
    std::vector<Tensors> found(2);
    std::vector<RankNet> nets;
    torch::manual_seed(4);
    for (int rank = 0; rank < 2; ++rank) nets.emplace_back(checkpoint);
    run_ranks(2, [&](ProcessGroup group) {
      RankNet& net = nets[static_cast<size_t>(group.rank())];
      train(net, group);
      found[static_cast<size_t>(group.rank())] = copies_of(*net);
    });
    return found;
  };
  expect_equal(trained(false), trained(true));
}

TEST(CheckpointedOnRanks, TrainsToTheSameBitsUnderDdpWithAccumulation) {
  for (const bool unused : {false, true}) {
    expect_same_on_ranks([&](RankNet& net, const ProcessGroup& group) {
      parallel::DistributedDataParallel ddp(
          net, group, {.bucket_bytes_cap = 4096, .find_unused_parameters = unused});
      torch::optim::SGD optimizer(net->parameters(), 0.1);
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        {
          const auto pause = ddp.no_sync();
          ddp->forward(rows(group.rank(), 2 * step)).square().mean().backward();
        }
        ddp->forward(rows(group.rank(), 2 * step + 1)).square().mean().backward();
        optimizer.step();
      }
    });
  }
}

TEST(CheckpointedOnRanks, TrainsToTheSameBitsUnderZero) {
  for (const int stage : {1, 2}) {
    expect_same_on_ranks([&](RankNet& net, const ProcessGroup& group) {
      parallel::ShardedDataParallel zero(net, group, {.stage = stage, .bucket_bytes = 4096});
      torch::optim::SGD sgd(zero.shard(), 0.1);
      auto optimizer = zero.optimizer(sgd);
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        zero->forward(rows(group.rank(), step)).square().mean().backward();
        optimizer.step();
      }
    });
  }
}

TEST(CheckpointedOnRanks, TakesStatisticsOverAllRanksInTheSecondRunToo) {
  expect_same_on_ranks([&](RankNet& net, const ProcessGroup& group) {
    parallel::DistributedDataParallel ddp(net, group);
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      torch::Tensor loss;
      {
        const parallel::BatchNormsOverRanks norms(&group);
        loss = ddp->forward(rows(group.rank(), step)).square().mean();
      }
      loss.backward();
      optimizer.step();
    }
  });
}

TEST(CheckpointedOnRanks, TrainsToTheSameBitsWithAScaledLoss) {
  expect_same_on_ranks([&](RankNet& net, const ProcessGroup& group) {
    parallel::DistributedDataParallel ddp(net, group);
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    parallel::GradScaler scaler({}, group);
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      torch::Tensor loss;
      {
        const parallel::AutocastGuard autocast(torch::kCPU,
                                               {.dtype = torch::kBFloat16, .cache = false});
        loss = ddp->forward(rows(group.rank(), step)).to(torch::kFloat).square().mean();
      }
      scaler.scale(loss).backward();
      scaler.step(optimizer);
      scaler.update();
    }
  });
}

TEST(CheckpointedOnRanks, TrainsToTheSameBitsInReplicas) {
  const auto trained = [](bool checkpoint) {
    parallel::DataParallel dp(
        [&] {
          torch::manual_seed(4);
          return RankNet(checkpoint);
        },
        {torch::Device(torch::kCPU), torch::Device(torch::kCPU)});
    auto optimizer =
        dp.optimizer([](RankNet& net) { return torch::optim::SGD(net->parameters(), 0.1); });
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      dp.backward(rows(0, step), [](RankNet& net, const torch::Tensor& x) {
        return net->forward(x).square().mean();
      });
      optimizer.step();
    }
    return copies_of(*dp.module(0));
  };
  expect_equal({trained(false)}, {trained(true)});
}

// Blocks.

TEST(BlockCheckpoints, CallASequentialsModulesAsChosen) {
  const auto gradients = [](const std::vector<bool>& again) {
    torch::manual_seed(2);
    torch::nn::Sequential net;
    for (int i = 0; i < 3; ++i) {
      net->push_back(torch::nn::Linear(8, 8));
      net->push_back(torch::nn::BatchNorm1d(8));
      net->push_back(torch::nn::Dropout(0.3));
      net->push_back(torch::nn::GELU());
    }
    const torch::Tensor x = torch::randn({5, 8});
    parallel::forward_blocks(net, x, parallel::BlockCheckpoints(again)).square().sum().backward();
    Tensors found;
    for (const torch::Tensor& parameter : net->parameters()) found.push_back(parameter.grad());
    for (const torch::Tensor& buffer : net->buffers()) found.push_back(buffer);
    return found;
  };
  const std::vector<bool> all(12, true), some = {false, true, true, false, true};
  expect_equal({gradients({})}, {gradients(all)});
  expect_equal({gradients({})}, {gradients(some)});
}

TEST(BlockCheckpoints, AreMeasuredByWhatTheySave) {
  parallel::BlockMeter meter;
  const torch::Tensor w = torch::ones({16, 16}).requires_grad_();
  torch::Tensor x = torch::ones({4, 16});
  // Saves its input (with the weight, which is no activation), an exponential, and its output.
  x = meter.call([&](const torch::Tensor& y) { return y.matmul(w).exp().add(1).tanh(); }, x);
  // Saves its input, which the block before saved as its output; nothing of its own.
  x = meter.call([](const torch::Tensor& y) { return y.square(); }, x);
  // Saves nothing.
  x = meter.call([](const torch::Tensor& y) { return y + 1; }, x);
  constexpr int64_t kOne = 4 * 16 * 4;
  const auto& blocks = meter.blocks();
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_EQ(blocks[0].input, kOne);
  EXPECT_EQ(blocks[0].inner, kOne);
  EXPECT_EQ(blocks[0].output, kOne);
  EXPECT_TRUE(blocks[0].saves_input);
  EXPECT_TRUE(blocks[0].saves_output);
  EXPECT_EQ(blocks[1].inner, 0);
  EXPECT_TRUE(blocks[1].saves_input);
  EXPECT_FALSE(blocks[1].saves_output);
  EXPECT_EQ(blocks[2].inner, 0);
  EXPECT_FALSE(blocks[2].saves_input);
}

}  // namespace
}  // namespace muster
