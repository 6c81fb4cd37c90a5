// Groups and DataParallel over the fake accelerator: what is there for CUDA follows any accelerator.
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/replicas/data_parallel.h"
#include "muster/testing/run_ranks.h"

#include "tests/support/error_of.h"
#include "tests/testing/accelerator/fake.h"

namespace muster {
namespace {

using parallel::DataParallel;
using parallel::DataParallelOptions;
using parallel::SharePolicy;
using test::kFake0;
using test::kFake1;
using test::same_bits;
using testing::FakeAccelerator;
using ::testing::HasSubstr;

TEST(GroupsOnFake, ReduceBroadcastAndGatherTensorsOfSeveralDevices) {
  const FakeAccelerator fake({.devices = 2});
  testing::run_ranks(2, [](distributed::ProcessGroup group) {
    const at::Device device = FakeAccelerator::device(group.rank());
    at::Tensor sum = torch::full({5}, group.rank() + 1.0, device);
    group.all_reduce(sum);
    EXPECT_TRUE(same_bits(sum, torch::full({5}, 3.0)));
    EXPECT_EQ(sum.device(), device);
    at::Tensor first = torch::full({3}, group.rank() + 1.0, device);
    group.broadcast(first, 1);
    EXPECT_TRUE(same_bits(first, torch::full({3}, 2.0)));
    const at::Tensor all = group.all_gather(torch::full({2}, group.rank() + 1.0, device));
    EXPECT_TRUE(same_bits(all, torch::tensor({{1.0F, 1.0F}, {2.0F, 2.0F}})));
  });
}

TEST(GroupsOnFake, RefuseTensorsOfDevicesThatTheirBackendDoesNotMove) {
  const FakeAccelerator fake;
  testing::run_ranks(2,
                     [](distributed::ProcessGroup group) {
                       const at::Tensor there = torch::ones({2}, kFake0);
                       EXPECT_THAT(
                           test::refusal_of([&] { group.all_reduce(there); }),
                           HasSubstr("this group moves tensors of cpu (got float32[2] on "));
                       group.barrier();
                     },
                     {.backend = "gloo"});
}

struct Trained {
  std::vector<at::Tensor> gradients;
  at::Tensor loss, outputs;
};

/// A step of two replicas. Shares of the batch are larger than what goes to a device without a ring.
Trained step(const std::vector<at::Device>& devices, DataParallelOptions options = {}) {
  const auto make = [] {
    torch::manual_seed(3);
    return torch::nn::Linear(512, 4);
  };
  DataParallel dp(make, devices, std::move(options));
  torch::manual_seed(5);
  const at::Tensor batch = torch::randn({128, 512});
  Trained trained;
  for (int i = 0; i < 6; ++i) {  // more than the ring has slots
    trained.loss = dp.backward(batch * (i + 1), [](auto& line, const at::Tensor& x) {
      return line->forward(x).pow(2).mean();
    });
  }
  for (const at::Tensor& parameter : dp.module()->parameters())
    trained.gradients.push_back(parameter.grad().cpu());
  trained.outputs = dp.forward(batch);
  return trained;
}

// Bit for bit, and without a race between the streams of replicas, caller and copies.
TEST(DataParallelOnFake, HasTheNumbersOfReplicasOnTheCpu) {
  const FakeAccelerator fake({.devices = 2, .poison = true});
  const Trained expected = step({at::kCPU, at::kCPU}), trained = step({kFake0, kFake1});
  ASSERT_EQ(trained.gradients.size(), expected.gradients.size());
  for (size_t i = 0; i < trained.gradients.size(); ++i)
    EXPECT_TRUE(same_bits(trained.gradients[i], expected.gradients[i])) << i;
  EXPECT_TRUE(same_bits(trained.loss, expected.loss));
  EXPECT_TRUE(same_bits(trained.outputs, expected.outputs));
}

TEST(DataParallelOnFake, DealsRowsByTheMemoryThatIsFree) {
  const FakeAccelerator fake({.devices = 2, .bytes_per_device = 64 << 20});
  const at::Tensor taken = torch::empty({48 << 20}, at::TensorOptions(kFake1).dtype(at::kByte));
  DataParallel dp([] { return torch::nn::Linear(4, 2); },
                  {kFake0, kFake1},
                  {.shares = SharePolicy::kFreeMemory});
  dp.backward(torch::ones({100, 4}),
              [](auto& line, const at::Tensor& x) { return line->forward(x).mean(); });
  EXPECT_EQ(dp.rows()[0] + dp.rows()[1], 100);
  EXPECT_NEAR(static_cast<double>(dp.rows()[0]), 80, 2);  // 64 MiB to 16
}

}  // namespace
}  // namespace muster
