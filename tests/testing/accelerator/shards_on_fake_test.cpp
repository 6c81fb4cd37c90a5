// Weights in shards on fake devices: what fits, and no use of weights that are on their way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/sharded/zero.h"
#include "muster/tensor/unit_call.h"
#include "muster/testing/run_ranks.h"

#include "tests/support/error_of.h"
#include "tests/testing/accelerator/fake.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using parallel::ShardedDataParallel;
using testing::FakeAccelerator;
using ::testing::HasSubstr;

constexpr int64_t kDeepWidth = 256, kDeepLayers = 24;
constexpr int64_t kDeepLayerBytes = 4 * kDeepWidth * kDeepWidth;

struct DeepNetImpl : torch::nn::Module {
  DeepNetImpl() {
    torch::manual_seed(2);
    for (int64_t i = 0; i < kDeepLayers; ++i) {
      layers.push_back(register_module(
          name(i),
          torch::nn::Linear(torch::nn::LinearOptions(kDeepWidth, kDeepWidth).bias(false))));
    }
  }
  static std::string name(int64_t i) { return "layer" + std::to_string(i); }
  torch::Tensor forward(torch::Tensor x) {
    for (int64_t i = 0; i < kDeepLayers; ++i)
      x = torch::tanh(tensor::call_unit(name(i), layers[static_cast<size_t>(i)], x));
    return x;
  }
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(DeepNet);

parallel::ZeroOptions sharding_of(int stage) {
  parallel::ZeroOptions options{.stage = stage};
  for (int64_t i = 0; stage == 3 && i < kDeepLayers; ++i)
    options.units.push_back({DeepNetImpl::name(i)});
  return options;
}

/// This rank's weights after some steps with Adam, whole, on the CPU.
std::vector<torch::Tensor> train_deep(const ProcessGroup& group,
                                      DeepNet net,
                                      int stage,
                                      c10::Device to) {
  net->to(to);
  ShardedDataParallel zero(net, group, sharding_of(stage));
  torch::optim::Adam adam(zero.shard(), 1e-3);
  const torch::Tensor rows = torch::linspace(-1, 1, 8 * kDeepWidth).view({8, kDeepWidth});
  const torch::Tensor own = rows.narrow(0, group.rank() * 4, 4).to(to);
  for (int step = 0; step < 3; ++step) {
    adam.zero_grad();
    zero->forward(own).square().mean().backward();
    zero.step(adam);
  }
  std::vector<torch::Tensor> weights;
  const auto whole = zero.whole_weights();
  for (const torch::Tensor& parameter : net->parameters())
    weights.push_back(parameter.detach().cpu().clone());
  return weights;
}

std::vector<std::vector<torch::Tensor>> train_sharded(int stage, bool on_cpu) {
  std::vector<DeepNet> nets{DeepNet(), DeepNet()};
  std::vector<std::vector<torch::Tensor>> weights(2);
  testing::run_ranks(2, [&](ProcessGroup group) {
    const c10::Device device = on_cpu ? c10::kCPU : FakeAccelerator::device(group.rank());
    weights[static_cast<size_t>(group.rank())] =
        train_deep(group, nets[static_cast<size_t>(group.rank())], stage, device);
  });
  return weights;
}

// The fake accelerator reports a use of memory that another stream still writes to, and fills what
// is freed with poison.
TEST(ShardsOnFake, HaveTheNumbersOfTheCpuWithoutARace) {
  const auto expected = train_sharded(3, /*on_cpu=*/true);
  const FakeAccelerator fake({.devices = 2, .poison = true});
  const auto weights = train_sharded(3, /*on_cpu=*/false);
  for (size_t rank = 0; rank < 2; ++rank) {
    for (size_t i = 0; i < weights[rank].size(); ++i)
      EXPECT_TRUE(test::same_bits(weights[rank][i], expected[rank][i])) << rank << ' ' << i;
  }
}

// Weights, gradients and Adam's state are 16 bytes per parameter: too many for one device, and for
// two that have weights each. Half of them and some layers' weights and gradients fit.
TEST(ShardsOnFake, OfAModelThatOneDeviceDoesNotHoldAreTrainedOnTwo) {
  const int64_t all = 4 * kDeepLayers * kDeepLayerBytes;
  const FakeAccelerator fake({.devices = 2, .bytes_per_device = all * 8 / 10});
  EXPECT_THAT(test::error_of([] { train_sharded(2, /*on_cpu=*/false); }),
              HasSubstr("out of memory"));
  EXPECT_NO_THROW(train_sharded(3, /*on_cpu=*/false));
}

struct DeepRun {
  std::vector<torch::Tensor> trained, loaded;  // weights on rank 0
};

/// SGD on four ranks, of a module that stays on the CPU until it is wrapped; and its weights as
/// another module has them that they were loaded into.
DeepRun train_from_host(bool on_cpu) {
  constexpr int kRanks = 4;
  std::vector<DeepNet> nets, others;
  for (int rank = 0; rank < kRanks; ++rank) {
    nets.emplace_back();
    others.emplace_back();
  }
  DeepRun run;
  testing::run_ranks(kRanks, [&](ProcessGroup group) {
    const auto rank = static_cast<size_t>(group.rank());
    const c10::Device device = on_cpu ? c10::kCPU : FakeAccelerator::device(group.rank());
    parallel::ZeroOptions options = sharding_of(3);
    options.device = device;
    parallel::NamedTensors of_first_rank, whole;
    {
      ShardedDataParallel zero(nets[rank], group, options);
      torch::optim::SGD sgd(zero.shard(), 0.1);
      const torch::Tensor rows = torch::linspace(-1, 1, 8 * kDeepWidth).view({8, kDeepWidth});
      const torch::Tensor own = rows.narrow(0, group.rank() * 2, 2).to(device);
      for (int step = 0; step < 3; ++step) {
        sgd.zero_grad();
        zero->forward(own).square().mean().backward();
        zero.step(sgd);
      }
      of_first_rank = zero.gather_weights();
    }
    for (const auto& item : others[rank]->named_parameters()) {
      const at::Tensor told = rank == 0 ? of_first_rank.at(whole.size()).second
                                        : torch::empty({kDeepWidth, kDeepWidth});
      group.broadcast(told);
      whole.emplace_back(item.key(), told);
      if (rank == 0) run.trained.push_back(told);
    }
    ShardedDataParallel zero(others[rank], group, options);
    zero.load_weights(whole);
    for (const auto& [name, tensor] : zero.gather_weights()) run.loaded.push_back(tensor);
  });
  return run;
}

TEST(ShardsOnFake, OfWeightsThatNoDeviceHoldsComeFromTheHostUnitByUnit) {
  const DeepRun expected = train_from_host(/*on_cpu=*/true);
  const int64_t all = kDeepLayers * kDeepLayerBytes;
  const FakeAccelerator fake({.devices = 4, .bytes_per_device = all * 95 / 100});
  EXPECT_THAT(test::error_of([] { DeepNet()->to(FakeAccelerator::device(0)); }),
              HasSubstr("out of memory"));
  const DeepRun run = train_from_host(/*on_cpu=*/false);
  ASSERT_EQ(run.trained.size(), static_cast<size_t>(kDeepLayers));
  ASSERT_EQ(run.loaded.size(), static_cast<size_t>(kDeepLayers));
  for (size_t i = 0; i < run.trained.size(); ++i) {
    EXPECT_TRUE(test::same_bits(run.trained[i], expected.trained[i])) << i;
    EXPECT_TRUE(test::same_bits(run.loaded[i], run.trained[i])) << i;
  }
}

}  // namespace
}  // namespace muster
