// Groups over tensors of a real device: by threads, by host memory, and by NCCL.
#include <cstdlib>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>

#include "muster/distributed/call/staged_backend.h"
#include "muster/distributed/process_group.h"
#include "muster/testing/run_ranks.h"

#include "tests/gpu/gpu.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using test::kGpu;
using test::OnGpu;
using ::testing::HasSubstr;

using GroupsOnGpu = OnGpu;

c10::Stream side_stream() {
  return c10::impl::VirtualGuardImpl(c10::kCUDA).getStreamFromGlobalPool(kGpu);
}

/// This rank's numbers // [world, 3] float64
at::Tensor numbers(int rank, int world, int salt, c10::Device device) {
  return torch::arange(3 * world, at::TensorOptions(at::kDouble))
      .mul(rank + 2)
      .add(salt)
      .view({world, 3})
      .to(device);
}

/// What each collective leaves on this rank.
std::vector<at::Tensor> collectives(const ProcessGroup& group, c10::Device device) {
  const int rank = group.rank(), world = group.world_size(), last = world - 1;
  const auto own = [&](int salt) { return numbers(rank, world, salt, device); };
  std::vector<at::Tensor> left;
  at::Tensor sum = own(1);
  group.all_reduce(sum);
  left.push_back(sum);
  at::Tensor greatest = own(2);
  group.all_reduce(greatest, c10d::ReduceOp::MAX);
  left.push_back(greatest);
  at::Tensor told = own(3);
  group.broadcast(told, last);
  left.push_back(told);
  at::Tensor reduced = own(4);
  group.reduce(reduced, last);
  if (rank == last) left.push_back(reduced);
  left.push_back(group.all_gather(own(5)));
  const at::Tensor gathered = group.gather(own(6), last);
  if (rank == last) left.push_back(gathered);
  at::Tensor part = torch::zeros({3}, own(0).options());
  group.scatter(part, rank == 0 ? own(7) : at::Tensor(), 0);
  left.push_back(part);
  left.push_back(group.reduce_scatter(own(8)));
  left.push_back(group.all_to_all(own(9)));
  group.barrier();
  if (world > 1) {
    at::Tensor heard = torch::zeros({world, 3}, own(0).options());
    const auto sent = group.send_async(own(10), (rank + 1) % world, {.tag = 4});
    group.recv(heard, (rank + world - 1) % world, {.tag = 4});
    sent.wait();
    left.push_back(heard);
  }
  return left;
}

void expect_the_cpus(const std::string& backend, int world) {
  SCOPED_TRACE(backend);
  testing::run_ranks(world,
                     [&](const ProcessGroup& group) {
                       const auto expected = collectives(group, c10::kCPU);
                       const c10::StreamGuard side(side_stream());
                       for (int turn = 0; turn < 20; ++turn) {
                         const auto left = collectives(group, kGpu);
                         for (const at::Tensor& tensor : left) EXPECT_EQ(tensor.device(), kGpu);
                         EXPECT_EQ(test::apart(left, expected), 0) << "rank " << group.rank();
                       }
                     },
                     {.backend = backend});
}

TEST_F(GroupsOnGpu, ThreadsThatShareADeviceHaveTheNumbersOfTheCpu) { expect_the_cpus("thread", 3); }

TEST_F(GroupsOnGpu, CollectivesByHostMemoryHaveTheNumbersOfTheCpu) {
  for (const char* backend : {"shm", "gloo"}) {
    testing::run_ranks(
        3,
        [&](const ProcessGroup& group) {
          const auto below = group.c10d()->getBackend(at::kCPU);
          distributed::StagedBackend staged(below, std::chrono::seconds(60));
          const c10::StreamGuard side(side_stream());
          for (int turn = 0; turn < 20; ++turn) {
            std::vector<at::Tensor> sum{torch::full({1 << 16}, group.rank() + 1.0, kGpu)};
            staged.allreduce(sum, {})->wait();
            EXPECT_TRUE(torch::equal(sum[0].mul(2).cpu(), torch::full({1 << 16}, 12.0))) << turn;
          }
        },
        {.backend = backend});
  }
}

/// A group of this process alone, made as a job's.
ProcessGroup nccl_of_one() {
  return distributed::init_process_group({.backend = "cpu:gloo,cuda:nccl", .device = kGpu});
}

TEST_F(GroupsOnGpu, NcclOfOneRankDoesEveryCollective) {
  const ProcessGroup group = nccl_of_one();
  EXPECT_EQ(group.device(), kGpu);
  const auto expected = collectives(group, c10::kCPU), left = collectives(group, kGpu);
  EXPECT_EQ(test::apart(left, expected), 0);
  EXPECT_EQ(group.all_gather_text("a rank"), std::vector<std::string>{"a rank"});
  const auto half = group.split(0, 0);
  ASSERT_TRUE(half);
  EXPECT_EQ(test::apart(collectives(*half, kGpu), expected), 0);
}

TEST_F(GroupsOnGpu, TensorsThatAGroupDoesNotMoveAreRefused) {
  testing::run_ranks(2,
                     [](const ProcessGroup& group) {
                       const at::Tensor there = torch::ones({2}, kGpu);
                       EXPECT_THAT(
                           test::refusal_of([&] { group.all_reduce(there); }),
                           HasSubstr("this group moves tensors of cpu (got float32[2] on "));
                       group.barrier();
                     },
                     {.backend = "shm"});
}

}  // namespace
}  // namespace muster
