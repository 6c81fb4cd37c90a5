// Groups of thread ranks: several of them, and what callbacks of their works may do.
#include <atomic>
#include <latch>
#include <memory>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/torch.h>

#include "muster/distributed/process_group.h"
#include "muster/distributed/thread/thread_exchange.h"
#include "muster/distributed/thread/thread_groups.h"

#include "tests/support/error_of.h"

namespace muster::distributed {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

float sum_over(const ProcessGroup& group) {
  torch::Tensor tensor = torch::full({1}, group.rank() + 1.0F);
  group.all_reduce(tensor);
  return tensor.item<float>();
}

class GroupsOfAWorld : public ::testing::TestWithParam<const char*> {};

TEST_P(GroupsOfAWorld, AreApartFromEachOther) {
  const ThreadWorld world(2, 60s, GetParam());
  world.run([&](const ProcessGroup& one) {
    const ProcessGroup two = world.group(one.rank());
    std::vector<torch::Tensor> first{torch::ones({2})}, second{torch::ones({3})};
    // Both under way at once, each as number 0 of its group.
    const auto in_one = one.c10d()->allreduce(first);
    const auto in_two = two.c10d()->allreduce(second);
    in_two->wait();
    in_one->wait();
    EXPECT_TRUE(torch::equal(first[0], torch::full({2}, 2.0F)));
    EXPECT_TRUE(torch::equal(second[0], torch::full({3}, 2.0F)));
    EXPECT_EQ(sum_over(two), 3);
    EXPECT_EQ(sum_over(one), 3);
  });
}

TEST_P(GroupsOfAWorld, AreNewOnesInEachRun) {
  const ThreadWorld world(2, 60s, GetParam());
  for (int round = 0; round < 3; ++round) {
    world.run([](const ProcessGroup& group) { EXPECT_EQ(sum_over(group), 3); });
    EXPECT_THAT(test::error_of([&] {
                  world.run([](const ProcessGroup& group) {
                    if (group.rank() == 0) throw std::runtime_error("my own error");
                    sum_over(group);
                  });
                }),
                HasSubstr("my own error"));
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, GroupsOfAWorld, ::testing::Values("thread", "shm", "gloo"));

// Each exchange has a thread, and each store what its ranks wrote.
TEST(ThreadGroups, KeepNothingOfAGroupThatNobodyHoldsAnyMore) {
  const ThreadGroups::Place first{std::make_shared<ThreadExchange>(2),
                                  c10::make_intrusive<c10d::HashStore>()};
  ThreadGroups groups(2);
  for (const int rank : {0, 1}) EXPECT_EQ(groups.next(rank, first).exchange, first.exchange);
  ThreadGroups::Place second = groups.next(0, first);
  const std::weak_ptr<ThreadExchange> exchange = second.exchange;
  const c10::weak_intrusive_ptr<c10d::Store> store(second.store);
  second = {};
  EXPECT_FALSE(exchange.expired()) << "rank 1 may still come";
  second = groups.next(1, first);
  EXPECT_EQ(second.exchange, exchange.lock());
  EXPECT_NE(second.exchange, first.exchange);
  second = {};
  EXPECT_TRUE(exchange.expired());
  EXPECT_TRUE(store.expired());

  const std::weak_ptr<ThreadExchange> third = groups.next(0, first).exchange;
  for (const int rank : {0, 1}) groups.leave(rank, "", *first.exchange);
  groups.begin_again();
  EXPECT_TRUE(third.expired()) << "rank 1 will come for others";
  EXPECT_EQ(groups.next(1, first).exchange, groups.next(0, first).exchange);
}

TEST(ThreadWorld, TellsAGroupThatIsMadeLaterWhoHasLeft) {
  const ThreadWorld world(2, 60s);
  std::latch left(1);
  world.run([&](const ProcessGroup& one) {
    if (one.rank() == 0) {
      world.leave(0, "it had to go");
      return left.count_down();
    }
    left.wait();
    EXPECT_THAT(test::error_of([&] { sum_over(world.group(1)); }), HasSubstr("it had to go"));
  });
}

// As after a step that all ranks end together: the one that was only told may be the first to leave.
TEST(ThreadWorld, ThrowsTheErrorOfTheRankThatFailedAndNotOfOneThatWasTold) {
  const ThreadWorld world(2, 60s);
  const std::string error = test::error_of([&] {
    world.run([](const ProcessGroup& group) {
      if (group.rank() == 0) {
        group.note_told_failure(1, "rank 1 failed: no memory");
        throw std::runtime_error("rank 1 failed: no memory");
      }
      EXPECT_THAT(test::error_of([&] { sum_over(group); }), HasSubstr("rank 1 failed"));
      throw std::runtime_error("no memory here");
    });
  });
  EXPECT_EQ(error, "no memory here");
}

// Who completes an operation does so for others: a callback that throws is none of its business.
TEST(CallbackThatThrows, IsToldToWhoeverWaitsForItsWorkAndToNobodyElse) {
  const ThreadWorld world(2, 60s);
  std::latch listens(1), done(1);
  world.run([&](const ProcessGroup& group) {
    std::vector<torch::Tensor> tensors{torch::ones({1})};
    if (group.rank() == 0) {
      const auto work = group.c10d()->allreduce(tensors);
      work->getFuture()->addCallback(
          [](c10::ivalue::Future&) { throw std::runtime_error("in the callback"); });
      listens.count_down();
      done.wait();
      EXPECT_THAT(test::error_of([&] { work->wait(); }), HasSubstr("in the callback"));
    } else {
      listens.wait();
      EXPECT_EQ(test::error_of([&] { group.c10d()->allreduce(tensors)->wait(); }), test::kNoError);
      done.count_down();
    }
    EXPECT_EQ(sum_over(group), 3);
  });
}

// As a communication hook does that sends a second part when the first has come.
TEST(CallbackThatIssuesAnOperation, MayRunOnAnyThreadWhileItsRankIssuesNone) {
  for (const char* backend : {"thread", "shm"}) {
    ThreadWorld(2, 60s, backend).run([](const ProcessGroup& group) {
      const auto c10d = group.c10d();
      for (int round = 0; round < 20; ++round) {
        std::vector<torch::Tensor> first{torch::ones({1})}, second{torch::ones({1})};
        const auto chained = std::make_shared<std::latch>(1);  // outlives its last count
        c10d->allreduce(first)->getFuture()->addCallback([&, chained](c10::ivalue::Future&) {
          c10d->allreduce(second)->getFuture()->addCallback(
              [chained](c10::ivalue::Future&) { chained->count_down(); });
        });
        chained->wait();
        EXPECT_EQ(second[0].item<float>(), 2);
      }
    });
  }
}

TEST(ThreadExchange, NamesWhoIsGoneAndNotWhoIsLateOrLeftBecauseOfIt) {
  const auto exchange = std::make_shared<ThreadExchange>(4);
  const auto barrier = [&](int rank, uint64_t sequence) {
    return exchange->post(rank, sequence, Contribution{.op = c10d::OpType::BARRIER}, 60s);
  };
  const auto waits = barrier(3, 0);
  exchange->leave(1, "");
  EXPECT_THAT(test::error_of([&] { waits->wait(); }),
              HasSubstr("rank 1 did not come, rank 3 waited (rank 1 has ended)"));
  exchange->leave(0, "rank 1 has ended");
  EXPECT_THAT(test::error_of([&] { barrier(3, 1)->wait(); }),
              HasSubstr("rank 1 did not come, rank 3 waited (rank 1 has ended)"));
}

TEST(ThreadWorldRun, TellsOfRanksThatDoNotEndWhenAnotherHasFailed) {
  std::latch released(1);
  std::vector<int> late;
  std::string failure;
  const distributed::ThreadWorld::Overdue overdue{
      .patience = 0ms, .tell = [&](const std::vector<int>& ranks, const std::exception_ptr& error) {
        late = ranks;
        failure = test::error_of([&] { std::rethrow_exception(error); });
        released.count_down();
      }};
  const std::string error = test::error_of([&] {
    ThreadWorld(2).run(
        [&](const ProcessGroup& group) {
          if (group.rank() == 1) return released.wait();
          throw std::runtime_error("rank 0 fails");
        },
        1,
        overdue);
  });
  EXPECT_THAT(late, ::testing::Contains(1));
  EXPECT_EQ(failure, "rank 0 fails");
  EXPECT_EQ(error, "rank 0 fails");
}

// Whoever brought the message, or came last, holds nothing of it when the receiver goes on. Among so
// many rounds a thread may lose its core in the wrong place now and then.
TEST(ThreadExchange, WhatIsReceivedIsTheReceiversAlone) {
  constexpr int kRounds = 2000;
  std::atomic<int> held_by_others{0};
  ThreadWorld(2).run([&](const ProcessGroup& group) {
    for (int round = 0; round < kRounds; ++round) {
      torch::Tensor tensor = torch::full({4}, static_cast<float>(round));
      if (group.rank() == 0) {
        group.send(tensor, 1);
      } else {
        group.recv(tensor, 0);
        held_by_others += tensor.use_count() > 1;
      }
      group.all_reduce(tensor);
      held_by_others += tensor.use_count() > 1;
    }
  });
  EXPECT_LE(held_by_others, kRounds / 20);
}

TEST(ThreadExchange, MayBeDroppedByACallbackOfItsOwnWatchdog) {
  auto exchange = std::make_shared<ThreadExchange>(2);
  const auto work = exchange->post(0, 0, Contribution{.op = c10d::OpType::BARRIER}, 50ms);
  const auto dropped = std::make_shared<std::latch>(1);
  work->getFuture()->addCallback(
      [exchange = std::move(exchange), dropped](c10::ivalue::Future&) mutable {
        exchange.reset();
        dropped->count_down();
      });
  dropped->wait();
  EXPECT_THAT(test::error_of([&] { work->wait(); }), HasSubstr("rank 1 did not come"));
}

}  // namespace
}  // namespace muster::distributed
