// The contract of process-group backends, fourth part: whoever dies, stalls, leaves or disagrees is
// named, to everybody, with what was called.
#include <future>
#include <latch>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"

#include "tests/distributed/backends/collectives.h"
#include "tests/distributed/given_time.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using test::error_of;
using test::kNoError;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using Tensors = std::vector<at::Tensor>;

/// Over the backends that name culprits (all but gloo: see inabilities()).
class Culprits : public test::OverBackends {};

TEST_P(Culprits, DifferentShapesAreRefusedOnAllRanksWithBothShapes) {
  std::vector<std::string> errors(world_size());
  run([&](ProcessGroup group) {
    const bool odd = group.rank() == group.world_size() - 1;
    torch::Tensor tensor = torch::ones({odd ? 3 : 2});
    errors[group.rank()] = error_of([&] { group.all_reduce(tensor); });
    torch::Tensor fine = torch::ones({1});
    group.all_reduce(fine);  // the group is still usable
    EXPECT_EQ(fine.item<float>(), float(group.world_size()));
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, HasSubstr("ranks disagree on a collective"));
    EXPECT_THAT(error, HasSubstr("rank 0: all_reduce sum float32[2]"));
    EXPECT_THAT(
        error,
        HasSubstr("rank " + std::to_string(world_size() - 1) + ": all_reduce sum float32[3]"));
  }
}

TEST_P(Culprits, SparseTensorsOfDifferentShapesAreRefusedOnAllRanksWithBothShapes) {
  std::vector<std::string> errors(world_size());
  run([&](ProcessGroup group) {
    const bool odd = group.rank() == group.world_size() - 1;
    Tensors sparse{torch::eye(4).narrow(0, 0, odd ? 3 : 4).to_sparse()};
    errors[group.rank()] = error_of([&] { test::backend_of(group)->allreduce(sparse)->wait(); });
    Tensors fine{torch::eye(4).to_sparse()};
    test::backend_of(group)->allreduce(fine)->wait();  // the group is still usable
    EXPECT_TRUE(torch::equal(fine[0].to_dense(), torch::eye(4) * group.world_size()));
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, HasSubstr("rank 0 has float32[4, 4] with 2 sparse dimensions"));
    EXPECT_THAT(error,
                HasSubstr("rank " + std::to_string(world_size() - 1) + " has float32[3, 4]"));
  }
}

TEST_P(Culprits, DifferentOperationsDtypesAndRootsAreRefused) {
  run([&](ProcessGroup group) {
    const bool odd = group.rank() == 1;
    torch::Tensor tensor = torch::ones({2});
    const std::string call = error_of([&] {
      if (odd) {
        group.broadcast(tensor);
      } else {
        group.all_reduce(tensor);
      }
    });
    EXPECT_THAT(call, HasSubstr("rank 1: broadcast root 0 float32[2]"));
    torch::Tensor typed = torch::ones({2}, odd ? torch::kInt : torch::kFloat);
    EXPECT_THAT(error_of([&] { group.all_reduce(typed); }),
                HasSubstr("rank 1: all_reduce sum int32[2]"));
    EXPECT_THAT(error_of([&] { group.broadcast(tensor, odd ? 1 : 0); }),
                HasSubstr("rank 1: broadcast root 1 float32[2]"));
    EXPECT_THAT(error_of([&] {
                  group.all_reduce(tensor, odd ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM);
                }),
                HasSubstr("rank 1: all_reduce max float32[2]"));
    group.barrier();
  });
}

TEST_P(Culprits, UnequalRowsOfAnAllToAllAreRefused) {
  run([&](ProcessGroup group) {
    const int world = group.world_size();
    // Rank 0 gives each rank two rows; rank 1 takes three from it.
    std::vector<int64_t> gives(world, 2), takes(world, 2);
    if (group.rank() == 1) takes[0] = 3;
    torch::Tensor input = torch::zeros({2 * world, 4}, torch::kByte);
    torch::Tensor output = torch::zeros({2 * world + (group.rank() == 1 ? 1 : 0), 4}, torch::kByte);
    const std::string error = error_of(
        [&] { test::backend_of(group)->alltoall_base(output, input, takes, gives)->wait(); });
    EXPECT_THAT(error, HasSubstr("rank 0 gives 8 bytes to rank 1, which takes 12"));
    group.barrier();
  });
}

TEST_P(Culprits, WhatARankCanSeeByItselfIsRefusedBeforeAnybodyWaits) {
  run([&](ProcessGroup group) {
    const auto backend = test::backend_of(group);
    torch::Tensor part = torch::zeros({2}), whole = torch::zeros({2 * group.world_size() + 1});
    EXPECT_THAT(error_of([&] { backend->_allgather_base(whole, part); }),
                HasSubstr("times the elements of a part"));
    EXPECT_THAT(error_of([&] { group.broadcast(part, 99); }), HasSubstr("root 99"));
    Tensors undefined{torch::Tensor()}, none;
    EXPECT_THAT(error_of([&] { backend->allreduce(undefined); }), HasSubstr("are defined"));
    EXPECT_THAT(error_of([&] { backend->allreduce(none); }), HasSubstr("at least one tensor"));
    Tensors sparse{torch::ones({3}).to_sparse()};
    EXPECT_THAT(error_of([&] { backend->broadcast(sparse); }), HasSubstr("tensors are dense"));
    EXPECT_THAT(error_of([&] { backend->allreduce(sparse, {.reduceOp = c10d::ReduceOp::MAX}); }),
                HasSubstr("summed or averaged (got max)"));
    Tensors two{part, part};
    EXPECT_THAT(error_of([&] { backend->reduce(two); }), HasSubstr("one input tensor"));
    Tensors word{part};
    EXPECT_THAT(error_of([&] { backend->send(word, 77, 0); }), HasSubstr("rank 77"));
    group.barrier();
  });
}

TEST_P(Culprits, AMessageForAnotherTensorIsRefused) {
  run([](ProcessGroup group) {
    if (group.rank() > 1) return;
    Tensors word{torch::zeros({group.rank() == 0 ? 4 : 5})};
    if (group.rank() == 0) {
      const auto sent = group.c10d()->send(word, 1, 0);
      error_of([&] { sent->wait(); });
    } else {
      EXPECT_THAT(error_of([&] { group.c10d()->recv(word, 0, 0)->wait(); }),
                  HasSubstr("rank 0 sent float32[4] for float32[5]"));
    }
  });
}

TEST_P(Culprits, ARankThatEndedIsNamedAtOnce) {
  std::vector<std::string> errors(world_size());
  const int gone = world_size() - 1;
  std::latch others(gone);  // who has seen it leaves only when all have
  run([&](ProcessGroup group) {
    if (group.rank() == gone) return;
    torch::Tensor tensor = torch::ones({5});
    errors[group.rank()] = error_of([&] { group.all_reduce(tensor); });
    others.arrive_and_wait();
  });
  for (int rank = 0; rank < gone; ++rank)
    EXPECT_THAT(errors[rank], HasSubstr("rank " + std::to_string(gone) + " has ended")) << rank;
}

TEST_P(Culprits, ARankThatStallsIsNamedAfterTheTimeoutAndToldWhenItComes) {
  std::latch others(world_size() - 1);
  std::vector<std::string> errors(world_size()), behind(world_size());
  const int late = world_size() - 1;
  run([&](ProcessGroup group) {
    const bool is_late = group.rank() == late;
    // Also where something throws: the late one must not wait for ever. They leave together.
    const auto leave = [](std::latch* latch) { latch->arrive_and_wait(); };
    const std::unique_ptr<std::latch, decltype(leave)> leaving(is_late ? nullptr : &others, leave);
    torch::Tensor tensor = torch::ones({5});
    group.all_reduce(tensor);
    test::backend_of(group)->setTimeout(std::chrono::milliseconds(700));
    if (is_late) others.wait();
    errors[group.rank()] = error_of([&] { group.all_reduce(tensor); });
    behind[group.rank()] = error_of([&] { group.all_reduce(tensor); });
  });
  // The group has failed, also for the one that is late: no call behind it succeeds, or waits.
  EXPECT_THAT(errors[late], HasSubstr("failed: all_reduce sum float32[5] #1"));
  for (const std::string& error : behind)
    EXPECT_THAT(error, HasSubstr("failed: all_reduce sum float32[5] #1"));
  for (int rank = 0; rank < late; ++rank) {
    EXPECT_THAT(errors[rank], HasSubstr("all_reduce sum float32[5] #1")) << rank;
    // On a machine that stands still others may be late as well: "rank 1, 3 did not come".
    EXPECT_THAT(
        errors[rank],
        ::testing::ContainsRegex("rank ([0-9], )*" + std::to_string(late) + " did not come"));
    EXPECT_THAT(errors[rank], HasSubstr("timed out after 700 ms"));
  }
  if (GetParam().backend == "shm") {
    EXPECT_THAT(errors[0],
                HasSubstr("rank " + std::to_string(late) + " was last in all_reduce #0"));
  }
}

INSTANTIATE_TEST_SUITE_P(Backends,
                         Culprits,
                         ::testing::ValuesIn(test::joined({test::over("thread", {2, 4}),
                                                           test::over("shm", {2, 4})})),
                         test::name_of);

/// Between hosts the timeout is gloo's, and who is missing is known to the missing rank's host.
class CulpritsOfHosts : public test::OverBackends {};

TEST_P(CulpritsOfHosts, DifferentShapesAreRefusedOnAllRanksWithBothShapes) {
  std::vector<std::string> errors(world_size());
  run([&](ProcessGroup group) {
    torch::Tensor tensor = torch::ones({group.rank() == 1 ? 3 : 2});
    errors[group.rank()] = error_of([&] { group.all_reduce(tensor); });
    group.barrier();
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error,
                HasSubstr("rank 0: all_reduce sum float32[2]; rank 1: all_reduce sum float32[3]"));
}

TEST_P(CulpritsOfHosts, ARankThatEndedIsNamedOnAllHosts) {
  // Rank 1 shares a host with rank 0 in one arrangement and with rank 3 in the other.
  std::vector<std::string> errors(world_size());
  run([&](ProcessGroup group) {
    if (group.rank() == 1) return;
    torch::Tensor tensor = torch::ones({5});
    errors[group.rank()] = error_of([&] { group.all_reduce(tensor); });
  });
  for (int rank = 0; rank < world_size(); ++rank) {
    if (rank == 1) continue;
    EXPECT_THAT(errors[rank], HasSubstr("rank 1 has ended")) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends,
                         CulpritsOfHosts,
                         ::testing::ValuesIn(test::over_hosts()),
                         test::name_of);

TEST(GlooContract, NamesNobodyWhichIsWhyItIsNotAmongTheCulprits) {
  EXPECT_FALSE(test::can({"", "gloo", 2, {}}, test::Ability::kFits));
}

TEST(ThreadRanks, ARankThatFailsReleasesTheOthersAndIsNamed) {
  std::string seen_by_rank_0;
  const std::string error = error_of([&] {
    run_ranks(2, [&](ProcessGroup group) {
      if (group.rank() == 1) throw usage_error({.refused = "the disk is on fire"});
      seen_by_rank_0 = error_of([&] { group.barrier(); });
    });
  });
  EXPECT_EQ(error, "rank 1: the disk is on fire");
  EXPECT_THAT(seen_by_rank_0, HasSubstr("rank 1 did not come"));
  EXPECT_THAT(seen_by_rank_0, HasSubstr("the disk is on fire"));
}

TEST(ShmRanks, AWaitWithATimeoutNamesTheMissingAndTheOperationGoesOn) {
  std::latch waited(1);
  run_ranks(2,
            [&](ProcessGroup group) {
              Tensors tensor{torch::ones({5})};
              if (group.rank() == 1) {
                waited.wait();
                return group.c10d()->allreduce(tensor)->wait(), void();
              }
              const auto work = group.c10d()->allreduce(tensor);
              // A thread of the group posts it, which may need longer than that to get a core.
              const std::string missing = "rank 1 did not come, rank 0 waited";
              const auto said = [&](std::chrono::milliseconds timeout) {
                return error_of([&] { work->wait(timeout); });
              };
              EXPECT_THAT(test::said_in_time(said, missing, std::chrono::milliseconds(50)),
                          HasSubstr(missing));
              waited.count_down();
              work->wait();
              EXPECT_EQ(tensor[0][0].item<float>(), 2);
            },
            {.backend = "shm"});
}

TEST(ShmRanks, ARankThatSkippedACollectiveIsNamedWithWhatItCalledInstead) {
  std::vector<std::string> errors(2);
  run_ranks(2,
            [&](ProcessGroup group) {
              torch::Tensor tensor = torch::ones({5});
              errors[group.rank()] = error_of([&] {
                if (group.rank() == 0) group.broadcast(tensor);
                group.barrier();
              });
            },
            {.backend = "shm"});
  for (const std::string& error : errors)
    EXPECT_THAT(error, HasSubstr("rank 0: broadcast root 0 float32[5]; rank 1: barrier"));
}

}  // namespace
}  // namespace muster
