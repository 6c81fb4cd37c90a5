// What ProcessGroup offers, over each backend: results, handles, bytes, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/distributed/backends/collectives.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using distributed::Work;
using test::error_of;
using ::testing::HasSubstr;

class Calls : public test::OverBackends {};

/// What rank `from` has for rank `to` // [2, 3]
torch::Tensor part(int from, int to) {
  return torch::arange(6.0).view({2, 3}) + 100 * from + 10 * to;
}

/// A row for each rank // [world_size, 2, 3]; every second time with gaps between its elements.
torch::Tensor parts_of(int from, int world) {
  std::vector<torch::Tensor> rows;
  for (int to = 0; to < world; ++to) rows.push_back(part(from, to));
  const torch::Tensor all = torch::stack(rows);
  return from % 2 == 0 ? all : all.transpose(1, 2).contiguous().transpose(1, 2);
}

/// Row `to` of each rank // [world_size, 2, 3]
torch::Tensor parts_for(int to, int world) {
  std::vector<torch::Tensor> rows;
  for (int from = 0; from < world; ++from) rows.push_back(part(from, to));
  return torch::stack(rows);
}

TEST_P(Calls, OfARootGiveItWhatAllHave) {
  run([](ProcessGroup group) {
    const int world = group.world_size(), rank = group.rank();
    for (int root = 0; root < world; ++root) {
      torch::Tensor sum = part(rank, 0).t();  // not contiguous
      group.reduce(sum, root);
      if (rank == root) {
        EXPECT_TRUE(torch::equal(sum, parts_for(0, world).sum(0).t()));
      }
      const torch::Tensor all = group.gather(part(rank, root), root);
      EXPECT_EQ(all.defined(), rank == root);
      if (rank == root) {
        EXPECT_TRUE(torch::equal(all, parts_for(root, world)));
      }
      torch::Tensor mine = torch::zeros({2, 3});
      group.scatter(mine, rank == root ? parts_of(root, world) : torch::Tensor(), root);
      EXPECT_TRUE(torch::equal(mine, part(root, rank)));
    }
  });
}

TEST_P(Calls, OfRowsGiveEachRankItsOwn) {
  run([](ProcessGroup group) {
    const int world = group.world_size(), rank = group.rank();
    EXPECT_TRUE(
        torch::equal(group.reduce_scatter(parts_of(rank, world)), parts_for(rank, world).sum(0)));
    EXPECT_TRUE(torch::equal(group.all_to_all(parts_of(rank, world)), parts_for(rank, world)));
  });
}

TEST_P(Calls, RowsOfUnequalNumberGoWhereTheirCountsSay) {
  run([](ProcessGroup group) {
    const int world = group.world_size(), rank = group.rank();
    // Rank `from` has (from + to) % 3 rows for rank `to`: sometimes none.
    const auto rows_from = [](int from, int to) {
      return torch::full({(from + to) % 3, 2}, 10.0 * from + to);
    };
    std::vector<torch::Tensor> give, take;
    std::vector<int64_t> counts;
    for (int other = 0; other < world; ++other) {
      give.push_back(rows_from(rank, other));
      counts.push_back(give.back().size(0));
      take.push_back(rows_from(other, rank));
    }
    EXPECT_TRUE(torch::equal(group.all_to_all(torch::cat(give), counts), torch::cat(take)));
    counts[0] += 1;
    EXPECT_THAT(error_of([&] { group.all_to_all(torch::cat(give), counts); }),
                HasSubstr("together as many as there are rows"));
  });
}

TEST_P(Calls, ThatAreNotWaitedForGoOnInTheirOrder) {
  run([](ProcessGroup group) {
    const int world = group.world_size(), rank = group.rank();
    torch::Tensor sum = torch::full({1000}, rank + 1.0).view({10, 100}).t();
    const Work summed = group.all_reduce_async(sum);
    const Work gathered = group.all_gather_async(part(rank, 0));
    const Work scattered = group.reduce_scatter_async(parts_of(rank, world));
    const Work exchanged = group.all_to_all_async(parts_of(rank, world));
    torch::Tensor word = torch::full({3}, rank);
    const Work told = group.broadcast_async(word, world - 1);
    torch::Tensor mine = torch::zeros({2, 3}), least = torch::full({2}, rank + 5.0);
    const Work dealt = group.scatter_async(mine, rank == 0 ? parts_of(0, world) : torch::Tensor());
    const Work to_root = group.gather_async(part(rank, 1));
    const Work reduced = group.reduce_async(least, 0, c10d::ReduceOp::MIN);
    const Work all_there = group.barrier_async();
    // The last first.
    EXPECT_FALSE(all_there.wait().defined());
    EXPECT_TRUE(torch::equal(reduced.wait(), rank == 0 ? torch::full({2}, 5.0) : least));
    EXPECT_EQ(to_root.wait().defined(), rank == 0);
    EXPECT_TRUE(torch::equal(dealt.wait(), part(0, rank)));
    EXPECT_TRUE(told.wait().is_same(word));
    EXPECT_TRUE(torch::equal(word, torch::full({3}, world - 1)));
    EXPECT_TRUE(torch::equal(exchanged.wait(), parts_for(rank, world)));
    EXPECT_TRUE(torch::equal(scattered.wait(), parts_for(rank, world).sum(0)));
    EXPECT_TRUE(torch::equal(gathered.wait(), parts_for(0, world)));
    EXPECT_TRUE(gathered.wait().is_same(gathered.wait()));  // again: the same
    summed.wait();
    EXPECT_TRUE(torch::equal(sum, torch::full({100, 10}, world * (world + 1) / 2.0)));
    EXPECT_TRUE(summed.is_completed());
    EXPECT_TRUE(Work().is_completed());
    EXPECT_FALSE(Work().wait().defined());
  });
}

TEST_P(Calls, ThatOneRankDoesNotWaitForAreMadeAllTheSame) {
  run([](ProcessGroup group) {
    for (int i = 0; i < 3; ++i) {
      torch::Tensor sum = torch::ones({5});
      const Work work = group.all_reduce_async(sum);
      if (group.rank() == 0) continue;
      work.wait();
      EXPECT_TRUE(torch::equal(sum, torch::full({5}, group.world_size())));
    }
    group.barrier();
  });
}

TEST_P(Calls, MoveBytesOfAnyLength) {
  run([](ProcessGroup group) {
    const int world = group.world_size(), rank = group.rank();
    const auto text_of = [](int of) {
      return std::string(static_cast<size_t>(of) * 70'000, '\0') + "x";
    };
    for (int root = 0; root < world; ++root) {
      const std::vector<std::string> all = group.gather_text(text_of(rank), root);
      ASSERT_EQ(all.size(), rank == root ? static_cast<size_t>(world) : 0);
      for (size_t from = 0; from < all.size(); ++from)
        EXPECT_EQ(all[from], text_of(static_cast<int>(from)));
      EXPECT_EQ(group.broadcast_text(rank == root ? text_of(root) : "other", root), text_of(root));
      EXPECT_EQ(group.broadcast_text("", root), "");
    }
  });
}

TEST_P(Calls, ThatMakeNoSenseAreRefusedBeforeAnybodyWaits) {
  run([](ProcessGroup group) {
    const int world = group.world_size();
    torch::Tensor word = torch::zeros({2});
    const auto no_root = HasSubstr("ranks (got root ");
    EXPECT_THAT(error_of([&] { group.reduce(word, world); }), no_root);
    EXPECT_THAT(error_of([&] { group.broadcast(word, -1); }), no_root);
    EXPECT_THAT(error_of([&] { group.gather(word, world); }), no_root);
    EXPECT_THAT(error_of([&] { group.scatter(word, {}, -7); }), no_root);
    EXPECT_THAT(error_of([&] { group.gather_text("", world); }), no_root);
    EXPECT_THAT(error_of([&] { group.broadcast_text("", world); }), no_root);
    EXPECT_THAT(error_of([&] {
                  group.all_to_all(torch::zeros({world + 1, 2}));
                }),
                HasSubstr("a row for each of the " + std::to_string(world) + " ranks"));
    EXPECT_THAT(error_of([&] { group.reduce_scatter(torch::zeros({})); }),
                HasSubstr("a row for each"));
    EXPECT_THAT(
        error_of([&] {
          group.scatter(word, group.rank() == 0 ? torch::Tensor() : torch::zeros({world, 2}));
        }),
        HasSubstr("the root gives a row for each rank, the others give none"));
    EXPECT_THAT(error_of([&] { group.all_gather(torch::Tensor()); }), HasSubstr("all_gather"));
    group.barrier();  // and the group is as it was
  });
}

TEST_P(Calls, ThatFailSayWhyEachTimeTheyAreWaitedFor) {
  if (world_size() == 1) GTEST_SKIP() << "nobody else";
  testing::run_ranks(world_size(),
                     [](ProcessGroup group) {
                       if (group.rank() == 1) return;
                       torch::Tensor word = torch::ones({4});
                       const Work work = group.all_reduce_async(word);
                       const std::string first = error_of([&] { work.wait(); });
                       EXPECT_THAT(first, HasSubstr("rank 1"));
                       EXPECT_EQ(error_of([&] { work.wait(); }), first);
                       EXPECT_TRUE(work.is_completed());
                     },
                     {.timeout = std::chrono::seconds(20),
                      .backend = GetParam().backend,
                      .hosts = GetParam().hosts});
}

INSTANTIATE_TEST_SUITE_P(Backends, Calls, ::testing::ValuesIn(test::over_all()), test::name_of);

}  // namespace
}  // namespace muster
