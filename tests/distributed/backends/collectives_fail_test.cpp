// The contract of process-group backends, fifth part: lists that do not fit, messages that cannot
// be put where they are to go, aborts and timeouts.
#include <chrono>
#include <functional>
#include <latch>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/distributed/backends/collectives.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using test::error_of;
using test::kNoError;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Ne;
using ::testing::Not;
using Tensors = std::vector<at::Tensor>;

/// Rank 1 gives one element of the four that are awaited, or takes one that is not given.
void expect_lists_of_unequal_sizes_refused(const ProcessGroup& group) {
  const auto backend = test::backend_of(group);
  const bool root = group.rank() == 0;
  const auto lists = [&](int64_t of_rank_1) {
    Tensors list(static_cast<size_t>(group.world_size()), torch::zeros({4}));
    list[1] = torch::zeros({of_rank_1});
    return list;
  };
  const auto from_rank_1 = HasSubstr("rank 1 gives 4 bytes to rank 0, which takes 16");
  const auto to_rank_1 = HasSubstr("rank 0 gives 4 bytes to rank 1, which takes 16");
  Tensors mine{torch::full({group.rank() == 1 ? 1 : 4}, 7.0F)}, taken{torch::zeros({4})};
  std::vector<Tensors> all{lists(4)}, none, given{lists(1)};
  EXPECT_THAT(error_of([&] { backend->allgather(all, mine)->wait(); }), from_rank_1);
  EXPECT_THAT(error_of([&] { backend->gather(root ? all : none, mine)->wait(); }), from_rank_1);
  EXPECT_TRUE(torch::equal(all[0][1], torch::zeros({4})));
  EXPECT_THAT(error_of([&] { backend->scatter(taken, root ? given : none)->wait(); }), to_rank_1);
  EXPECT_THAT(error_of([&] { backend->alltoall(all[0], given[0])->wait(); }), to_rank_1);
  group.barrier();  // it is still usable
}

/// The same elements in the same order, cut in another way.
void expect_other_boundaries_refused(const ProcessGroup& group) {
  Tensors list{torch::ones({2}), torch::ones({6}), torch::ones({})};
  if (group.rank() == 1) std::swap(list[1], list[2]);
  EXPECT_THAT(error_of([&] { test::backend_of(group)->allreduce(list)->wait(); }),
              HasSubstr("ranks disagree on a collective"));
  group.barrier();
}

/// Over the backends that name culprits (all but gloo: see inabilities()).
class CollectivesThatFail : public test::OverBackends {};

TEST_P(CollectivesThatFail, ListsOfUnequalSizesAreRefusedOnAllRanks) {
  run([](ProcessGroup group) { expect_lists_of_unequal_sizes_refused(group); });
}

TEST_P(CollectivesThatFail, ListsOfTheSameElementsWithOtherBoundariesAreRefused) {
  run([](ProcessGroup group) { expect_other_boundaries_refused(group); });
}

TEST_P(CollectivesThatFail, AMessageIntoATensorThatCannotBeWrittenFailsAndTheNextOneComes) {
  run([](ProcessGroup group) {
    const auto unwritable = [] { return Tensors{torch::zeros({1}).expand({4})}; };
    const auto refused = HasSubstr("single memory location");
    if (group.rank() == 0) {
      Tensors word{torch::ones({4})};
      const auto first = group.c10d()->send(word, 1, 7), second = group.c10d()->send(word, 1, 8);
      second->wait();
      error_of([&] { first->wait(); });  // its end depends on the backend
      group.barrier();
      const auto third = group.c10d()->send(word, 1, 9);
      error_of([&] { third->wait(); });
    } else if (group.rank() == 1) {
      Tensors word{torch::zeros({4})}, bad = unwritable(), worse = unwritable();
      group.c10d()->recv(word, 0, 8)->wait();  // the first has to make way
      EXPECT_TRUE(torch::equal(word[0], torch::ones({4})));
      EXPECT_THAT(error_of([&] { group.c10d()->recv(bad, 0, 7)->wait(); }), refused);
      const auto awaited = group.c10d()->recv(worse, 0, 9);
      group.barrier();
      EXPECT_THAT(error_of([&] { awaited->wait(); }), refused);
    } else {
      group.barrier();
    }
    group.barrier();
  });
}

TEST_P(CollectivesThatFail, SparseTensorsOfDifferentSizesAreRefusedOnAllRanks) {
  run([](ProcessGroup group) {
    const auto sum_of = [&](const std::vector<int64_t>& sizes) {
      Tensors sparse{torch::ones(sizes).to_sparse()};
      return error_of([&] { test::backend_of(group)->allreduce(sparse)->wait(); });
    };
    const bool odd = group.rank() == 1;
    EXPECT_THAT(sum_of({odd ? 4 : 3}),
                HasSubstr("rank 0 has float32[3] with 1 sparse dimension; rank 1 has float32[4]"));
    EXPECT_THAT(sum_of(odd ? std::vector<int64_t>{3, 1} : std::vector<int64_t>{3}),
                HasSubstr("ranks disagree on all_reduce of sparse tensors"));
    EXPECT_EQ(sum_of({3}), kNoError);
  });
}

TEST_P(CollectivesThatFail, AbortReleasesThisRankAndThoseThatWaitForIt) {
  run([](ProcessGroup group) {
    Tensors tensor{torch::ones({3})}, word{torch::zeros({3})};
    const auto at_once = AllOf(Ne(kNoError), Not(HasSubstr("timed out")));
    if (group.rank() != 0) {
      EXPECT_THAT(error_of([&] { group.c10d()->recv(word, 0, 4)->wait(); }), at_once);
      return;
    }
    const auto sum = group.c10d()->allreduce(tensor);
    const auto message = group.c10d()->recv(word, 1, 4);
    test::backend_of(group)->abort();
    EXPECT_THAT(error_of([&] { sum->wait(); }), at_once);
    EXPECT_THAT(error_of([&] { message->wait(); }), at_once);
    EXPECT_THAT(error_of([&] { group.c10d()->allreduce(tensor)->wait(); }), at_once);
    EXPECT_THAT(error_of([&] { group.c10d()->recv(word, 1, 4)->wait(); }), at_once);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends,
                         CollectivesThatFail,
                         ::testing::ValuesIn(test::joined({test::over("thread", {2, 4}),
                                                           test::over("shm", {2, 4})})),
                         test::name_of);

class CollectivesOfHostsThatFail : public test::OverBackends {};

TEST_P(CollectivesOfHostsThatFail, ListsThatDoNotFitAreRefusedOnAllRanks) {
  run([](ProcessGroup group) {
    expect_lists_of_unequal_sizes_refused(group);
    expect_other_boundaries_refused(group);
  });
}

TEST_P(CollectivesOfHostsThatFail, ListsWhosePartsDifferAreRefusedOnAllRanksEvenIfTheyFit) {
  run([](ProcessGroup group) {
    Tensors mine{torch::zeros({group.rank() + 1})}, list;
    for (int rank = 0; rank < group.world_size(); ++rank) list.push_back(torch::zeros({rank + 1}));
    std::vector<Tensors> all{list}, none;
    const auto backend = test::backend_of(group);
    const auto refused = HasSubstr("the tensors of a list have one size");
    const bool root = group.rank() == 0;
    EXPECT_THAT(error_of([&] { backend->allgather(all, mine)->wait(); }), refused);
    EXPECT_THAT(error_of([&] { backend->gather(root ? all : none, mine)->wait(); }), refused);
    EXPECT_THAT(error_of([&] { backend->scatter(mine, root ? all : none)->wait(); }), refused);
    group.barrier();
  });
}

/// Of the group, in tests of shorter ones: longer than CTest waits, so that who comes back at all has
/// not waited for it, however slow the machine is.
constexpr std::chrono::hours kGroupsTimeout(1);

/// All ranks but the last, which does not come, fail.
void expect_over(const ProcessGroup& group,
                 std::latch& others,
                 const std::function<void(c10d::Backend&)>& call) {
  if (group.rank() == group.world_size() - 1) return others.wait();
  EXPECT_NE(error_of([&] { call(*test::backend_of(group)); }), kNoError);
  others.count_down();
}

TEST_P(CollectivesOfHostsThatFail, ACallsOwnTimeoutHoldsOnAllHosts) {
  std::latch others(world_size() - 1);
  run(
      [&](ProcessGroup group) {
        expect_over(group, others, [](c10d::Backend& backend) {
          Tensors tensor{torch::ones({5})};
          backend.allreduce(tensor, {.timeout = std::chrono::milliseconds(400)})->wait();
        });
      },
      kGroupsTimeout);
}

TEST_P(CollectivesOfHostsThatFail, SetTimeoutHoldsForCollectivesAndForMessagesInsideAHost) {
  std::latch others(world_size() - 1), message_failed(1);
  const int neighbour_of_0 = GetParam().hosts[1] == "a" ? 1 : 2;
  run(
      [&](ProcessGroup group) {
        expect_over(group, others, [&](c10d::Backend& backend) {
          backend.setTimeout(std::chrono::milliseconds(400));
          Tensors tensor{torch::ones({5})};
          if (group.rank() == 0) {
            EXPECT_THAT(error_of([&] { backend.recv(tensor, neighbour_of_0, 1)->wait(); }),
                        HasSubstr("timed out after 400 ms"));
            message_failed.count_down();
          } else {
            message_failed.wait();  // else the neighbour may have failed, and left, before
          }
          backend.allreduce(tensor)->wait();
        });
      },
      kGroupsTimeout);
}

INSTANTIATE_TEST_SUITE_P(Backends,
                         CollectivesOfHostsThatFail,
                         ::testing::ValuesIn(test::over_hosts()),
                         test::name_of);

}  // namespace
}  // namespace muster
