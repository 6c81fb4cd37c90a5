// What every process-group backend promises. One suite over all backends that run without a device.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/testing/run_ranks.h"

#include "tests/error_of.h"

namespace muster {
namespace {

using muster::testing::run_ranks;
using parallel::ProcessGroup;
using test::error_of;
using ::testing::HasSubstr;

/// backend, world size
class Collectives : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  void run(const std::function<void(ProcessGroup)>& rank_main) {
    run_ranks(std::get<1>(GetParam()),
              rank_main,
              {.timeout = std::chrono::seconds(20), .backend = std::get<0>(GetParam())});
  }
};

TEST_P(Collectives, AllReduceSumsOverRanks) {
  run([](ProcessGroup group) {
    for (const auto dtype :
         {torch::kFloat, torch::kDouble, torch::kLong, torch::kInt, torch::kHalf}) {
      torch::Tensor tensor = torch::full({3, 5}, group.rank() + 1, dtype);
      group.all_reduce(tensor);
      const int world = group.world_size();
      EXPECT_TRUE(torch::equal(tensor, torch::full({3, 5}, world * (world + 1) / 2, dtype)));
    }
  });
}

TEST_P(Collectives, AllReduceKnowsMinMaxAndProduct) {
  run([](ProcessGroup group) {
    const int world = group.world_size();
    const auto reduced = [&](c10d::ReduceOp::RedOpType op) {
      torch::Tensor tensor = torch::tensor({group.rank() + 1.0, -group.rank() - 1.0});
      group.all_reduce(tensor, op);
      return tensor;
    };
    EXPECT_TRUE(torch::equal(reduced(c10d::ReduceOp::MIN), torch::tensor({1.0, -1.0 * world})));
    EXPECT_TRUE(torch::equal(reduced(c10d::ReduceOp::MAX), torch::tensor({1.0 * world, -1.0})));
    double factorial = 1;
    for (int i = 2; i <= world; ++i) factorial *= i;
    EXPECT_TRUE(torch::equal(reduced(c10d::ReduceOp::PRODUCT),
                             torch::tensor({factorial, world % 2 == 0 ? factorial : -factorial})));
  });
}

TEST_P(Collectives, BroadcastComesFromEachRoot) {
  run([](ProcessGroup group) {
    for (int root = 0; root < group.world_size(); ++root) {
      torch::Tensor tensor = torch::full({4}, group.rank() * 10 + root);
      group.broadcast(tensor, root);
      EXPECT_TRUE(torch::equal(tensor, torch::full({4}, root * 10 + root)));
    }
  });
}

TEST_P(Collectives, AllGatherPutsRanksInOrder) {
  run([](ProcessGroup group) {
    const torch::Tensor all = group.all_gather(torch::full({2, 3}, group.rank(), torch::kLong));
    ASSERT_EQ(all.sizes(), (std::vector<int64_t>{group.world_size(), 2, 3}));
    for (int rank = 0; rank < group.world_size(); ++rank)
      EXPECT_TRUE(torch::equal(all[rank], torch::full({2, 3}, rank, torch::kLong)));
  });
}

TEST_P(Collectives, TextsOfUnequalLengthAreGathered) {
  run([](ProcessGroup group) {
    const std::vector<std::string> texts =
        group.all_gather_text(std::string(group.rank() * 7, 'x'));
    ASSERT_EQ(texts.size(), group.world_size());
    for (int rank = 0; rank < group.world_size(); ++rank)
      EXPECT_EQ(texts[rank], std::string(rank * 7, 'x'));
  });
}

TEST_P(Collectives, ManyOperationsMayBeInFlight) {
  run([](ProcessGroup group) {
    std::vector<torch::Tensor> tensors;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < 50; ++i) {
      tensors.push_back(torch::full({100}, i + group.rank()));
      std::vector<at::Tensor> one{tensors.back()};
      works.push_back(group.c10d()->allreduce(one));
    }
    const int world = group.world_size();
    for (int i = 49; i >= 0; --i) {
      works[i]->wait();
      EXPECT_EQ(tensors[i][99].item<int64_t>(), i * world + world * (world - 1) / 2);
    }
  });
}

TEST_P(Collectives, SendMeetsReceiveInARing) {
  run([](ProcessGroup group) {
    if (group.world_size() == 1) return;
    const int next = (group.rank() + 1) % group.world_size(),
              last = (group.rank() + group.world_size() - 1) % group.world_size();
    std::vector<at::Tensor> out{torch::full({6}, group.rank())},
        in{torch::zeros({6}, torch::kLong)};
    // Both sides send first: neither may block before the other has posted its receive.
    const auto sent = group.c10d()->send(out, next, 7);
    const auto received = group.c10d()->recv(in, last, 7);
    received->wait();
    sent->wait();
    EXPECT_TRUE(torch::equal(in[0], torch::full({6}, last)));
  });
}

// c10d calls these *_single now and called them _*_base in LibTorch 2.11.
template <class Group>
void reduce_scatter(Group& group, torch::Tensor& part, torch::Tensor& whole) {
  if constexpr (requires { group.reduce_scatter_single(part, whole); })
    group.reduce_scatter_single(part, whole)->wait();
  else
    group._reduce_scatter_base(part, whole)->wait();
}

template <class Group>
void all_gather(Group& group, torch::Tensor& whole, torch::Tensor& part) {
  if constexpr (requires { group.all_gather_single(whole, part); })
    group.all_gather_single(whole, part)->wait();
  else
    group._allgather_base(whole, part)->wait();
}

TEST_P(Collectives, ReduceScatterAndGatherAreEachOthersInverse) {
  run([](ProcessGroup group) {
    const int world = group.world_size();
    torch::Tensor whole = torch::arange(world * 3, torch::kDouble);
    torch::Tensor part = torch::zeros({3}, torch::kDouble);
    reduce_scatter(*group.c10d(), part, whole);
    EXPECT_TRUE(torch::equal(
        part, torch::arange(world * 3, torch::kDouble).narrow(0, group.rank() * 3, 3) * world));
    torch::Tensor back = torch::zeros({world * 3}, torch::kDouble);
    all_gather(*group.c10d(), back, part);
    EXPECT_TRUE(torch::equal(back, torch::arange(world * 3, torch::kDouble) * world));
  });
}

TEST_P(Collectives, NobodyPassesABarrierBeforeTheLastCame) {
  std::atomic<int> came{0};
  run([&](ProcessGroup group) {
    for (int round = 1; round <= 5; ++round) {
      ++came;
      group.barrier();
      EXPECT_GE(came.load(), round * group.world_size());
      group.barrier();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Backends,
                         Collectives,
                         ::testing::Combine(::testing::Values("thread", "shm", "gloo"),
                                            ::testing::Values(1, 2, 4)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" +
                                  std::to_string(std::get<1>(info.param)) + "_ranks";
                         });

// What only thread ranks do: name the culprit at once.

TEST(ThreadRanks, SumIsInRankOrderAndThereforeBitEqualFromRunToRun) {
  // (1e16 + 1) - 1e16 is 0 in this order and 1 in others.
  run_ranks(3, [](ProcessGroup group) {
    const double terms[] = {1e16, 1.0, -1e16};
    torch::Tensor tensor = torch::tensor({terms[group.rank()]}, torch::kDouble);
    group.all_reduce(tensor);
    EXPECT_EQ(tensor.item<double>(), (1e16 + 1.0) - 1e16);
  });
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

TEST(ThreadRanks, ARankThatEndedEarlyIsNamedAtOnce) {
  const std::string error = error_of([] {
    run_ranks(2, [](ProcessGroup group) {
      if (group.rank() == 1) return;
      torch::Tensor tensor = torch::ones({5});
      group.all_reduce(tensor);
    });
  });
  EXPECT_THAT(error, HasSubstr("ALLREDUCE sum Float[5] #0 of thread ranks: rank 1 did not come"));
  EXPECT_THAT(error, HasSubstr("rank 1 has ended"));
}

TEST(ThreadRanks, ARankThatStallsIsNamedAfterTheTimeout) {
  // Rank 1 waits for a message that rank 0 can only send once its own barrier has failed.
  std::string seen;
  run_ranks(
      2,
      [&](ProcessGroup group) {
        std::vector<at::Tensor> word{torch::zeros({1})};
        if (group.rank() == 0) {
          seen = error_of([&] { group.barrier(); });
          group.c10d()->send(word, 1, 0)->wait();
        } else {
          while (error_of([&] { group.c10d()->recv(word, 0, 0)->wait(); }) != test::kNoError) {
          }
        }
      },
      {.timeout = std::chrono::milliseconds(200)});
  EXPECT_THAT(seen, HasSubstr("rank 1 did not come, rank 0 waited (timed out after 200 ms)"));
}

TEST(ThreadRanks, DifferentShapesAreRefusedWithBothShapes) {
  const std::string error = error_of([] {
    run_ranks(2, [](ProcessGroup group) {
      torch::Tensor tensor = torch::ones({group.rank() + 2});
      group.all_reduce(tensor);
    });
  });
  EXPECT_THAT(error, HasSubstr("ranks disagree on a collective"));
  EXPECT_THAT(error, HasSubstr("rank 0: ALLREDUCE sum Float[2]; rank 1: ALLREDUCE sum Float[3]"));
}

TEST(ThreadRanks, DifferentOperationsAreRefused) {
  const std::string error = error_of([] {
    run_ranks(2, [](ProcessGroup group) {
      torch::Tensor tensor = torch::ones({2});
      if (group.rank() == 0) {
        group.all_reduce(tensor);
      } else {
        group.broadcast(tensor);
      }
    });
  });
  EXPECT_THAT(error, HasSubstr("rank 1: BROADCAST root 0 Float[2]"));
}

}  // namespace
}  // namespace muster
