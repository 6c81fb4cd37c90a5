// Collectives of device tensors by host memory: what they say of the CPU's tensors, and no race.
#include <functional>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/distributed/call/staged_backend.h"
#include "muster/testing/run_ranks.h"

#include "tests/support/error_of.h"
#include "tests/testing/accelerator/fake.h"

namespace muster {
namespace {

using distributed::StagedBackend;
using test::kFake0;
using test::same_bits;
using testing::FakeAccelerator;
using Tensors = std::vector<at::Tensor>;

constexpr std::chrono::seconds kStagedPatience{60};

/// This rank's numbers // [6] float32 on `device`, others for each `salt`.
at::Tensor numbers(int rank, int salt, at::Device device) {
  return torch::arange(6).mul(rank + 2).add(salt).to(torch::kFloat).to(device);
}

/// gloo of LibTorch 2.11 has it for one tensor alone.
bool has_all_to_all_of_lists(c10d::Backend& group) try {
  Tensors given, taken;
  for (int i = 0; i < group.getSize(); ++i) {
    given.push_back(torch::zeros({1}));
    taken.push_back(torch::zeros({1}));
  }
  group.alltoall(taken, given, {})->wait();
  return true;
} catch (const c10::Error& error) {
  if (std::string_view(error.what()).find("does not support alltoall") == std::string_view::npos)
    throw;
  return false;
}

/// Every collective on one device; what it leaves.
Tensors collectives(c10d::Backend& group, at::Device device, bool all_to_all_of_lists) {
  const int rank = group.getRank(), world = group.getSize();
  Tensors left;
  const auto done = [&](const c10::intrusive_ptr<c10d::Work>& work, const Tensors& results) {
    if (work) work->wait();
    for (const at::Tensor& result : results) left.push_back(result.mul(1));  // on this stream
  };
  const auto room = [&](int64_t rows) { return torch::zeros({rows}, device); };
  const auto rows = [&](int salt) {
    Tensors list;
    for (int i = 0; i < world; ++i) list.push_back(numbers(rank, salt + i, device));
    return list;
  };
  Tensors one{numbers(rank, 1, device)};
  done(group.allreduce(one, {}), one);
  c10d::AllreduceOptions greatest;
  greatest.reduceOp = c10d::ReduceOp::MAX;
  greatest.asyncOp = false;
  one = {numbers(rank, 2, device)};
  done(group.allreduce(one, greatest), one);
  one = {numbers(rank, 3, device)};
  c10d::BroadcastOptions from_one;
  from_one.rootRank = 1;
  done(group.broadcast(one, from_one), one);
  one = {numbers(rank, 4, device)};
  c10d::ReduceOptions to_one;
  to_one.rootRank = 1;
  const auto reduced = group.reduce(one, to_one);
  done(reduced, rank == 1 ? one : Tensors());
  Tensors list{room(6), room(6), room(6)};
  std::vector<Tensors> lists{list};
  one = {numbers(rank, 5, device)};
  done(group.allgather(lists, one, {}), list);
  c10d::GatherOptions gather;
  gather.rootRank = 2;
  lists = rank == 2 ? std::vector<Tensors>{list} : std::vector<Tensors>{};
  done(group.gather(lists, one, gather), rank == 2 ? list : Tensors());
  c10d::ScatterOptions scatter;
  scatter.rootRank = 0;
  lists = rank == 0 ? std::vector<Tensors>{rows(6)} : std::vector<Tensors>{};
  one = {room(6)};
  done(group.scatter(one, lists, scatter), one);
  lists = {rows(7)};
  one = {room(6)};
  done(group.reduce_scatter(one, lists, {}), one);
  at::Tensor part = room(2), whole = numbers(rank, 8, device);
  done(group._reduce_scatter_base(part, whole, {}), {part});
  at::Tensor all = room(18);
  done(group._allgather_base(all, whole, {}), {all});
  Tensors given = rows(9), taken{room(6), room(6), room(6)};
  if (all_to_all_of_lists) done(group.alltoall(taken, given, {}), taken);
  std::vector<int64_t> splits{2, 2, 2};
  at::Tensor swapped = room(6);
  done(group.alltoall_base(swapped, whole, splits, splits, {}), {swapped});
  group.barrier({})->wait();
  Tensors message{numbers(rank, 10, device)}, heard{room(6)};
  const auto sent = group.send(message, (rank + 1) % world, 3);
  done(group.recv(heard, (rank + world - 1) % world, 3), heard);
  if (sent) sent->wait();
  return left;
}

TEST(StagedBackend, DoesEveryCollectiveAsTheBackendBelow) {
  const FakeAccelerator fake({.poison = true});
  for (const char* backend : {"shm", "gloo"}) {
    testing::run_ranks(3,
                       [&](distributed::ProcessGroup group) {
                         const auto below = group.c10d()->getBackend(at::kCPU);
                         const bool lists = has_all_to_all_of_lists(*below);
                         const Tensors expected = collectives(*below, at::kCPU, lists);
                         StagedBackend staged(below, kStagedPatience);
                         const Tensors own = collectives(staged, kFake0, lists);
                         ASSERT_EQ(own.size(), expected.size());
                         for (size_t i = 0; i < own.size(); ++i) {
                           EXPECT_EQ(own[i].device(), kFake0);
                           EXPECT_TRUE(same_bits(own[i], expected[i]))
                               << backend << ", result " << i;
                         }
                       },
                       {.backend = backend});
  }
}

// The producer of a tensor, and who reads the result, may have streams of their own.
TEST(StagedBackend, WaitsForTheStreamOfItsCallerAndIsWaitedFor) {
  const FakeAccelerator fake;
  testing::run_ranks(
      2,
      [&](distributed::ProcessGroup group) {
        StagedBackend staged(group.c10d()->getBackend(at::kCPU), kStagedPatience);
        const c10::StreamGuard side(test::fake_guard().getStreamFromGlobalPool(kFake0));
        Tensors sum{torch::full({4}, group.rank() + 1.0, kFake0)};
        staged.allreduce(sum, {})->wait();
        EXPECT_TRUE(same_bits(sum[0].mul(2), torch::full({4}, 6.0)));
      },
      {.backend = "shm"});
}

TEST(StagedBackend, RefusesAsTheBackendBelowWhatRanksDisagreeOn) {
  const FakeAccelerator fake;
  testing::run_ranks(2,
                     [&](distributed::ProcessGroup group) {
                       StagedBackend staged(group.c10d()->getBackend(at::kCPU), kStagedPatience);
                       Tensors sum{torch::zeros({group.rank() + 2}, kFake0)};
                       EXPECT_THAT(test::refusal_of([&] { staged.allreduce(sum, {})->wait(); }),
                                   ::testing::HasSubstr("ranks disagree on a collective"));
                     },
                     {.backend = "shm"});
}

}  // namespace
}  // namespace muster
