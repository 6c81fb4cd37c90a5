// The contract of process-group backends, second part: operations with a tensor for each rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/distributed/backends/collectives.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using test::Ability;
using test::backend_of;
using test::error_of;
using Tensors = std::vector<at::Tensor>;

class CollectivesOfLists : public test::OverBackends {};

/// What rank `from` has for rank `to`: [3, 2] of the dtype.
torch::Tensor piece(int from, int to, at::ScalarType dtype = at::kFloat) {
  return (torch::arange(6).view({3, 2}) + 7 * from + to).to(dtype);
}

Tensors pieces_for_all(int from, int world, at::ScalarType dtype = at::kFloat) {
  Tensors pieces;
  for (int to = 0; to < world; ++to) pieces.push_back(piece(from, to, dtype));
  return pieces;
}

Tensors blanks(int world, at::ScalarType dtype = at::kFloat) {
  Tensors blanks;
  for (int r = 0; r < world; ++r) blanks.push_back(torch::zeros({3, 2}, dtype));
  return blanks;
}

TEST_P(CollectivesOfLists, EveryDtypeMoves) {
  run([](ProcessGroup group) {
    for (const auto dtype : {at::kBool,
                             at::kByte,
                             at::kChar,
                             at::kInt,
                             at::kLong,
                             at::kHalf,
                             at::kBFloat16,
                             at::kFloat,
                             at::kDouble}) {
      const torch::Tensor all = group.all_gather(piece(group.rank(), 0, dtype));
      for (int rank = 0; rank < group.world_size(); ++rank)
        EXPECT_TRUE(torch::equal(all[rank], piece(rank, 0, dtype))) << c10::toString(dtype);
      torch::Tensor tensor = piece(group.rank(), 3, dtype);
      group.broadcast(tensor, group.world_size() - 1);
      EXPECT_TRUE(torch::equal(tensor, piece(group.world_size() - 1, 3, dtype)));
    }
  });
}

TEST_P(CollectivesOfLists, ReduceGivesTheSumToItsRootOnly) {
  run([](ProcessGroup group) {
    for (int root = 0; root < group.world_size(); ++root) {
      Tensors tensor{torch::full({5}, group.rank() + 1.0F)};
      c10d::ReduceOptions options;
      options.rootRank = root;
      backend_of(group)->reduce(tensor, options)->wait();
      const int world = group.world_size();
      if (group.rank() == root) {
        EXPECT_TRUE(torch::equal(tensor[0], torch::full({5}, world * (world + 1) / 2.0F)));
      }
      group.barrier();
    }
  });
}

TEST_P(CollectivesOfLists, GatherAndScatterAreForTheRoot) {
  run([](ProcessGroup group) {
    const int world = group.world_size(), rank = group.rank();
    for (int root = 0; root < world; ++root) {
      std::vector<Tensors> gathered;
      if (rank == root) gathered.push_back(blanks(world));
      Tensors mine{piece(rank, root)};
      c10d::GatherOptions to_root;
      to_root.rootRank = root;
      backend_of(group)->gather(gathered, mine, to_root)->wait();
      for (int from = 0; rank == root && from < world; ++from)
        EXPECT_TRUE(torch::equal(gathered[0][from], piece(from, root)));

      std::vector<Tensors> given;
      if (rank == root) given.push_back(pieces_for_all(root, world));
      Tensors taken{torch::zeros({3, 2})};
      c10d::ScatterOptions from_root;
      from_root.rootRank = root;
      backend_of(group)->scatter(taken, given, from_root)->wait();
      EXPECT_TRUE(torch::equal(taken[0], piece(root, rank)));
    }
  });
}

TEST_P(CollectivesOfLists, ReduceScatterSumsWhatIsForEachRank) {
  run([](ProcessGroup group) {
    const int world = group.world_size();
    std::vector<Tensors> inputs{pieces_for_all(group.rank(), world)};
    Tensors output{torch::zeros({3, 2})};
    backend_of(group)->reduce_scatter(output, inputs)->wait();
    torch::Tensor sum = torch::zeros({3, 2});
    for (int from = 0; from < world; ++from) sum += piece(from, group.rank());
    EXPECT_TRUE(torch::equal(output[0], sum));
  });
}

TEST_P(CollectivesOfLists, AllToAllTransposesRanksAndPieces) {
  run([&](ProcessGroup group) {
    const int world = group.world_size();
    Tensors inputs = pieces_for_all(group.rank(), world), outputs = blanks(world);
    const auto call = [&] { backend_of(group)->alltoall(outputs, inputs)->wait(); };
    if (!can(Ability::kAllToAllOfLists) && error_of(call) != test::kNoError) return;
    if (can(Ability::kAllToAllOfLists)) call();
    for (int from = 0; from < world; ++from)
      EXPECT_TRUE(torch::equal(outputs[from], piece(from, group.rank())));
  });
}

TEST_P(CollectivesOfLists, AllToAllOfOneTensorTakesEvenAndUnevenRows) {
  run([](ProcessGroup group) {
    const int world = group.world_size(), rank = group.rank();
    torch::Tensor input = torch::arange(world * 4).view({world * 2, 2}) + 100 * rank;
    torch::Tensor output = torch::zeros({world * 2, 2}, torch::kLong);
    std::vector<int64_t> even;
    backend_of(group)->alltoall_base(output, input, even, even)->wait();
    for (int from = 0; from < world; ++from)
      EXPECT_TRUE(torch::equal(output.narrow(0, from * 2, 2),
                               torch::arange(4).view({2, 2}) + rank * 4 + 100 * from));

    // Rank r gives r + to rows to rank `to`: none from rank 0 to itself.
    std::vector<int64_t> gives, takes;
    int64_t rows = 0, awaited = 0;
    for (int other = 0; other < world; ++other) {
      gives.push_back(rank + other);
      takes.push_back(rank + other);
      rows += rank + other;
      awaited += rank + other;
    }
    torch::Tensor uneven = torch::full({rows, 3}, rank, torch::kInt);
    torch::Tensor got = torch::zeros({awaited, 3}, torch::kInt);
    auto sizes = takes;  // gloo moves it away
    backend_of(group)->alltoall_base(got, uneven, sizes, gives)->wait();
    int64_t at = 0;
    for (int from = 0; from < world; ++from) {
      EXPECT_TRUE(torch::equal(got.narrow(0, at, takes[from]),
                               torch::full({takes[from], 3}, from, torch::kInt)));
      at += takes[from];
    }
  });
}

TEST_P(CollectivesOfLists, ManyTensorsAreReducedInOneCall) {
  run([](ProcessGroup group) {
    Tensors tensors;
    for (int i = 0; i < 5; ++i) tensors.push_back(torch::full({i, 2}, group.rank() + i));
    backend_of(group)->allreduce_coalesced(tensors)->wait();
    const int world = group.world_size();
    for (int i = 0; i < 5; ++i)
      EXPECT_TRUE(
          torch::equal(tensors[i], torch::full({i, 2}, world * (world - 1) / 2 + i * world)));
  });
}

TEST_P(CollectivesOfLists, SeveralTensorsMayShareACallOrAreRefused) {
  run([&](ProcessGroup group) {
    Tensors tensors{torch::ones({2}), torch::ones({3, 2}) * 5};
    const auto call = [&] { backend_of(group)->allreduce(tensors)->wait(); };
    if (!can(Ability::kTensorList)) {
      EXPECT_NE(error_of(call), test::kNoError);
      return;
    }
    call();
    const auto world = float(group.world_size());
    EXPECT_TRUE(torch::equal(tensors[0], torch::ones({2}) * world));
    EXPECT_TRUE(torch::equal(tensors[1], torch::ones({3, 2}) * 5 * world));
  });
}

TEST_P(CollectivesOfLists, MessagesWithOtherTagsMayComeInAnyOrder) {
  run([](ProcessGroup group) {
    if (group.world_size() == 1) return;
    if (group.rank() == 0) {
      std::vector<c10::intrusive_ptr<c10d::Work>> sent;
      std::vector<Tensors> words;
      for (int tag = 0; tag < 3; ++tag) {
        words.push_back({torch::full({4}, tag)});
        sent.push_back(group.c10d()->send(words.back(), 1, tag));
      }
      for (const auto& work : sent) work->wait();
    } else if (group.rank() == 1) {
      for (const int tag : {2, 0, 1}) {
        Tensors word{torch::zeros({4}, torch::kLong)};
        group.c10d()->recv(word, 0, tag)->wait();
        EXPECT_TRUE(torch::equal(word[0], torch::full({4}, tag)));
      }
    }
    group.barrier();
  });
}

TEST_P(CollectivesOfLists, AMessageOfAnySourceSaysWhereItCameFrom) {
  run([&](ProcessGroup group) {
    const int world = group.world_size();
    if (!can(Ability::kAnySource)) {
      Tensors word{torch::zeros({2})};
      EXPECT_NE(error_of([&] { backend_of(group)->recvAnysource(word, 5)->wait(); }),
                test::kNoError);
      return;
    }
    if (group.rank() != 0) {
      Tensors word{torch::full({2}, float(group.rank()))};
      group.c10d()->send(word, 0, 5)->wait();
    } else {
      std::vector<int> sources;
      for (int other = 1; other < world; ++other) {
        Tensors word{torch::zeros({2})};
        const auto work = group.c10d()->recvAnysource(word, 5);
        work->wait();
        sources.push_back(work->sourceRank());
        EXPECT_EQ(word[0][1].item<float>(), float(sources.back()));
      }
      std::sort(sources.begin(), sources.end());
      for (int other = 1; other < world; ++other) EXPECT_EQ(sources[other - 1], other);
    }
    group.barrier();
  });
}

TEST(CollectivesOfThreads, AnAllGatherMayTakeItsInputFromAnyPartOfItsOutput) {
  testing::run_ranks(3, [](ProcessGroup group) {
    for (int part = 0; part < 3; ++part) {
      for (const bool gaps : {false, true}) {
        torch::Tensor all = torch::zeros({3, 2, gaps ? 2 : 1}).select(2, 0);
        torch::Tensor mine = all[(group.rank() + part) % 3];
        mine.fill_(float(group.rank() + 1));
        test::backend_of(group)->_allgather_base(all, mine)->wait();
        EXPECT_TRUE(
            torch::equal(all, torch::tensor({1.0F, 2.0F, 3.0F}).view({3, 1}).expand({3, 2})));
        group.barrier();
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Backends,
                         CollectivesOfLists,
                         ::testing::ValuesIn(test::over_all()),
                         test::name_of);

}  // namespace
}  // namespace muster
