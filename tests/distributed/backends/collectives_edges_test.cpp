// The contract of process-group backends, third part: sizes, layouts, many things at once, ends.
#include <latch>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/distributed/backends/collectives.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using distributed::ThreadWorld;
using test::Ability;
using test::backend_of;
using test::error_of;
using Tensors = std::vector<at::Tensor>;

class CollectivesAtTheEdges : public test::OverBackends {};

TEST_P(CollectivesAtTheEdges, EmptyTensorsPass) {
  run([](ProcessGroup group) {
    torch::Tensor nothing = torch::zeros({0, 3});
    group.all_reduce(nothing);
    group.broadcast(nothing, group.world_size() - 1);
    EXPECT_EQ(group.all_gather(nothing).sizes(), (std::vector<int64_t>{group.world_size(), 0, 3}));
    torch::Tensor one = torch::ones({1});
    group.all_reduce(one);
    EXPECT_EQ(one.item<float>(), float(group.world_size()));
  });
}

TEST_P(CollectivesAtTheEdges, TensorsWithGapsKeepTheirGaps) {
  run([&](ProcessGroup group) {
    const int world = group.world_size();
    torch::Tensor base = torch::full({4, 6}, group.rank() + 1.0F);
    torch::Tensor holes = base.t().slice(0, 0, 6, 2);  // [3, 4]
    group.all_reduce(holes);  // ProcessGroup's own: right over every backend
    torch::Tensor expected = torch::full({4, 6}, group.rank() + 1.0F);
    expected.slice(1, 0, 6, 2).fill_(world * (world + 1) / 2.0F);
    EXPECT_TRUE(torch::equal(base, expected));

    base.fill_(group.rank() + 1.0F);
    Tensors raw{holes};
    backend_of(group)->allreduce(raw)->wait();
    EXPECT_EQ(torch::equal(base, expected), can(Ability::kStrided) || world == 1);
    if (!can(Ability::kStrided)) return;

    torch::Tensor whole = torch::zeros({2, 3 * world});
    Tensors rows;
    for (int r = 0; r < world; ++r) rows.push_back(whole.narrow(1, 3 * r, 3));
    std::vector<Tensors> outputs{rows};
    Tensors mine{torch::full({3, 2}, float(group.rank())).t()};
    backend_of(group)->allgather(outputs, mine)->wait();
    for (int r = 0; r < world; ++r)
      EXPECT_TRUE(torch::equal(rows[r], torch::full({2, 3}, float(r))));
  });
}

TEST_P(CollectivesAtTheEdges, ConjugatedAndNegatedViewsAreTheNumbersThatTheyShow) {
  run([&](ProcessGroup group) {
    const double world = group.world_size();
    const torch::Tensor base = torch::complex(torch::full({3}, 2.0), torch::full({3}, 1.0));
    torch::Tensor conjugated = base.conj(), negated = torch::imag(base.conj());
    ASSERT_TRUE(conjugated.is_conj() && negated.is_neg());
    EXPECT_TRUE(torch::equal(group.all_gather(negated)[0], torch::full({3}, -1.0F)));
    group.broadcast(negated);
    EXPECT_TRUE(torch::equal(negated, torch::full({3}, -1.0F)));
    group.all_reduce(negated);
    EXPECT_TRUE(torch::equal(negated, torch::full({3}, -world)));
    if (!can(Ability::kReduceComplex)) return;
    group.all_reduce(conjugated);  // of 2 - world i
    EXPECT_TRUE(torch::allclose(torch::real(conjugated), torch::full({3}, 2 * world)));
    EXPECT_TRUE(torch::allclose(torch::imag(conjugated), torch::full({3}, -world * world)));
  });
}

// 12 MB and odd: more than all slots of a segment together, and no multiple of a chunk.
constexpr int64_t kMany = 3'000'001;

TEST_P(CollectivesAtTheEdges, TensorsMayBeLargerThanAnyBuffer) {
  run([](ProcessGroup group) {
    const int world = group.world_size(), rank = group.rank();
    const torch::Tensor ramp = torch::arange(kMany, torch::kInt);
    torch::Tensor tensor = ramp + rank;
    group.all_reduce(tensor);
    EXPECT_TRUE(torch::equal(tensor, ramp * world + world * (world - 1) / 2));
    tensor = ramp * (rank + 1);
    group.broadcast(tensor, world - 1);
    EXPECT_TRUE(torch::equal(tensor, ramp * world));
    const torch::Tensor all = group.all_gather(ramp + rank);
    for (int r = 0; r < world; ++r) EXPECT_TRUE(torch::equal(all[r], ramp + r));
    torch::Tensor given = (ramp + rank).repeat({world}),
                  taken = torch::zeros({kMany * world}, torch::kInt);
    std::vector<int64_t> even;
    backend_of(group)->alltoall_base(taken, given, even, even)->wait();
    for (int r = 0; r < world; ++r)
      EXPECT_TRUE(torch::equal(taken.narrow(0, r * kMany, kMany), ramp + r));
    torch::Tensor part = torch::zeros({kMany}, torch::kInt);
    backend_of(group)->_reduce_scatter_base(part, given)->wait();
    EXPECT_TRUE(torch::equal(part, ramp * world + world * (world - 1) / 2));
  });
}

TEST_P(CollectivesAtTheEdges, LongMessagesGoBothWaysAtOnce) {
  run([](ProcessGroup group) {
    if (group.world_size() == 1) return;
    const int next = (group.rank() + 1) % group.world_size(),
              last = (group.rank() + group.world_size() - 1) % group.world_size();
    Tensors out{torch::full({1'000'003}, float(group.rank()))}, in{torch::zeros({1'000'003})};
    const auto sent = group.c10d()->send(out, next, 3);
    const auto received = group.c10d()->recv(in, last, 3);
    sent->wait();
    received->wait();
    EXPECT_TRUE(torch::equal(in[0], torch::full({1'000'003}, float(last))));
  });
}

TEST_P(CollectivesAtTheEdges, MessagesAndCollectivesDoNotWaitForEachOther) {
  run([](ProcessGroup group) {
    if (group.world_size() == 1) return;
    Tensors word{torch::full({3}, float(group.rank()))};
    if (group.rank() == 1) {
      const auto awaited = group.c10d()->recv(word, 0, 1);
      group.barrier();  // rank 0 sends only afterwards
      awaited->wait();
      EXPECT_EQ(word[0][0].item<float>(), 0);
    } else {
      group.barrier();
      if (group.rank() == 0) group.c10d()->send(word, 1, 1)->wait();
    }
    group.barrier();
  });
}

TEST_P(CollectivesAtTheEdges, OperationsInFlightTellTheirFutures) {
  run([](ProcessGroup group) {
    constexpr int kOps = 30;
    std::vector<Tensors> tensors;
    std::vector<c10::intrusive_ptr<c10::ivalue::Future>> told;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < kOps; ++i) {
      tensors.push_back({torch::full({1000 * (i % 3) + 1}, float(i))});
      works.push_back(group.c10d()->allreduce(tensors.back()));
      told.push_back(works.back()->getFuture());
    }
    for (int i = 0; i < kOps; ++i) {
      told[i]->wait();
      EXPECT_EQ(told[i]->value().toTensorVector().at(0)[0].item<float>(), i * group.world_size());
    }
  });
}

TEST_P(CollectivesAtTheEdges, GroupsOfOneProcessAreApart) {
  const auto& param = GetParam();
  const auto timeout = std::chrono::seconds(20);
  const ThreadWorld second(param.world_size, timeout, param.backend, param.hosts),
      third(param.world_size, timeout, param.backend, param.hosts);
  run([&](ProcessGroup first) {
    const int rank = first.rank(), world = first.world_size();
    std::optional<ProcessGroup> a(second.group(rank)), b(third.group(rank));
    Tensors in_a{torch::full({2000}, 1.0F)}, in_b{torch::full({2000}, 2.0F)},
        in_first{torch::full({2000}, 3.0F)};
    // Even ranks and odd ones issue in different orders: groups do not wait for each other.
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    if (rank % 2 == 0) works.push_back(a->c10d()->allreduce(in_a));
    works.push_back(b->c10d()->allreduce(in_b));
    if (rank % 2 == 1) works.push_back(a->c10d()->allreduce(in_a));
    works.push_back(first.c10d()->allreduce(in_first));
    for (const auto& work : works) work->wait();
    EXPECT_EQ(in_a[0][1999].item<float>(), 1.0F * world);
    EXPECT_EQ(in_b[0][1999].item<float>(), 2.0F * world);
    EXPECT_EQ(in_first[0][1999].item<float>(), 3.0F * world);
    works.clear();
    // Ends in any order.
    first.barrier();
    if (rank % 2 == 0) a.reset();
    b.reset();
    a.reset();
  });
}

TEST_P(CollectivesAtTheEdges, AGroupMayEndBeforeItsWorks) {
  run([](ProcessGroup group) {
    Tensors tensor{torch::ones({10})};
    auto work = group.c10d()->allreduce(tensor);
    work->wait();
    const int world = group.world_size();
    group.barrier();
    group = distributed::init_process_group({}, std::nullopt);
    EXPECT_TRUE(work->isCompleted());
    EXPECT_EQ(work->result().at(0)[3].item<float>(), float(world));
  });
}

INSTANTIATE_TEST_SUITE_P(Backends,
                         CollectivesAtTheEdges,
                         ::testing::ValuesIn(test::over_all()),
                         test::name_of);

/// The backends that are ours from end to end.
class EndsOfGroups : public test::OverBackends {};

TEST_P(EndsOfGroups, AGroupEndsWithOperationsInFlightThatNobodyElseCameTo) {
  std::string seen;
  run([&](ProcessGroup group) {
    if (group.rank() != 0) return;
    Tensors tensor{torch::ones({1000})}, word{torch::ones({3})};
    auto never = group.c10d()->allreduce(tensor);
    auto neither = group.c10d()->recv(word, 1, 0);
    group = distributed::init_process_group({}, std::nullopt);
    seen = error_of([&] { never->wait(); });
    EXPECT_NE(error_of([&] { neither->wait(); }), test::kNoError);
  });
  EXPECT_NE(seen, test::kNoError);
}

INSTANTIATE_TEST_SUITE_P(Backends,
                         EndsOfGroups,
                         ::testing::ValuesIn(test::joined({test::over("shm", {2, 4}),
                                                           test::over_hosts()})),
                         test::name_of);

}  // namespace
}  // namespace muster
