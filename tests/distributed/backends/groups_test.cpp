// The contract of groups that are made from groups: Note [Groups of groups], over each backend.
#include <algorithm>
#include <latch>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/device_mesh.h"

#include "tests/distributed/backends/collectives.h"
#include "tests/support/golden.h"
#include "tests/support/thread_count.h"

namespace muster {
namespace {

using distributed::DeviceMesh;
using distributed::kNoColor;
using distributed::ProcessGroup;
using test::error_of;
using test::kNoError;
using test::refusal_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Groups : public test::OverBackends {};

/// The ranks of `parent` that are in `part`, by their place there, as they say themselves.
std::vector<int64_t> told_ranks(const ProcessGroup& part, const ProcessGroup& parent) {
  const torch::Tensor all = part.all_gather(torch::full({1}, parent.rank(), torch::kLong)).view(-1);
  return {all.const_data_ptr<int64_t>(), all.const_data_ptr<int64_t>() + all.numel()};
}

std::vector<int64_t> world_ranks(const ProcessGroup& group) {
  std::vector<int64_t> ranks;
  for (int rank = 0; rank < group.world_size(); ++rank) ranks.push_back(group.world_rank(rank));
  return ranks;
}

TEST_P(Groups, OfOneColourAreOrderedByKeyAndThenByRank) {
  run([](ProcessGroup world) {
    const int rank = world.rank(), size = world.world_size();
    for (const bool reversed : {false, true}) {
      const auto part = world.split(rank % 2, reversed ? -rank : 7);
      std::vector<int64_t> expected;
      for (int other = rank % 2; other < size; other += 2) expected.push_back(other);
      if (reversed) std::reverse(expected.begin(), expected.end());
      ASSERT_TRUE(part);
      EXPECT_EQ(part->world_size(), static_cast<int>(expected.size()));
      EXPECT_EQ(expected[static_cast<size_t>(part->rank())], rank);
      EXPECT_EQ(told_ranks(*part, world), expected);
      EXPECT_EQ(world_ranks(*part), expected);
      EXPECT_EQ(part->device(), world.device());
    }
  });
}

TEST_P(Groups, DoWhatAnyGroupDoes) {
  run([](ProcessGroup world) {
    const auto part = world.split(world.rank() % 2);
    const int rank = part->rank(), size = part->world_size(), next = (rank + 1) % size,
              last = (rank + size - 1) % size;
    torch::Tensor sum = torch::full({3}, rank + 1.0F), word = torch::zeros({2});
    // The parent's own calls go on between those of the parts.
    torch::Tensor all = torch::ones({2});
    const auto of_world = world.all_reduce_async(all);
    part->all_reduce(sum);
    part->send(torch::full({2}, float(world.rank())), next, {.tag = 3});
    EXPECT_EQ(part->recv(word, last, {.tag = 3}), last);
    of_world.wait();
    EXPECT_TRUE(torch::equal(sum, torch::full({3}, size * (size + 1) / 2.0F)));
    EXPECT_EQ(word[0].item<float>(), float(part->world_rank(last)));
    EXPECT_EQ(all[0].item<float>(), float(world.world_size()));
    EXPECT_EQ(part->gather_text(std::to_string(world.rank())).size(), rank == 0 ? size_t(size) : 0);
    mark_step(*part, 3);
    EXPECT_EQ(flight_recorder(*part) == nullptr, size == 1);
    part->barrier();
  });
}

TEST_P(Groups, LeaveOutWhoHasNoColourOrIsNotInTheList) {
  run([](ProcessGroup world) {
    const int rank = world.rank(), size = world.world_size();
    const auto part = world.split(rank == 0 ? kNoColor : 5);
    EXPECT_EQ(part.has_value(), rank != 0);
    std::vector<int> list;
    for (int other = size; other-- > size / 2;) list.push_back(other);
    const auto listed = world.subgroup(list);
    ASSERT_EQ(listed.has_value(), rank >= size / 2);
    if (listed) {
      EXPECT_EQ(list[static_cast<size_t>(listed->rank())], rank);
      EXPECT_EQ(told_ranks(*listed, world), std::vector<int64_t>(list.begin(), list.end()));
    }
    world.barrier();
  });
}

TEST_P(Groups, MayBeSplitAgainAndOutliveEachOther) {
  run([](ProcessGroup world) {
    const int rank = world.rank(), size = world.world_size();
    std::optional<ProcessGroup> all = world.split(0, -rank);  // in reverse
    std::optional<ProcessGroup> some = all->split(all->rank() / 2);
    std::vector<int64_t> expected;
    for (int place = 0; place < size; ++place)
      if (place / 2 == all->rank() / 2) expected.push_back(size - 1 - place);
    EXPECT_EQ(world_ranks(*some), expected);
    EXPECT_EQ(told_ranks(*some, world), expected);
    all.reset();
    EXPECT_EQ(told_ranks(*some, world), expected);
    std::optional<ProcessGroup> other = world.split(rank);
    EXPECT_EQ(other->world_size(), 1);
    world.barrier();
    const int before = world.rank();
    world = distributed::init_process_group({}, std::nullopt);
    torch::Tensor sum = torch::full({2}, float(before));
    some->all_reduce(sum);
    EXPECT_EQ(sum[0].item<float>(), float(std::accumulate(expected.begin(), expected.end(), 0)));
    other->barrier();
    some->barrier();
  });
}

TEST_P(Groups, ThatMakeNoSenseAreRefusedOnAllRanks) {
  run([](ProcessGroup world) {
    const int rank = world.rank(), size = world.world_size(), odd = size - 1;
    EXPECT_THAT(refusal_of([&] { world.split(rank == odd ? -7 : 0); }),
                HasSubstr("colour -7 of rank " + std::to_string(odd)));
    EXPECT_THAT(refusal_of([&] { world.subgroup({0, size}); }), HasSubstr("each of them once"));
    EXPECT_THAT(refusal_of([&] { world.subgroup({0, 0}); }), HasSubstr("(got 0, 0)"));
    EXPECT_THAT(refusal_of([&] { world.subgroup({}); }), HasSubstr("each of them once"));
    EXPECT_THAT(refusal_of([&] { world.world_rank(size); }), HasSubstr("ranks are 0 to"));
    if (size > 1) {
      EXPECT_THAT(refusal_of([&] { world.split(0, 0, {.name = rank == odd ? "b" : "a"}); }),
                  HasSubstr("rank 0: \"a\", 0 ms; rank " + std::to_string(odd) + ": \"b\", 0 ms"));
      EXPECT_THAT(refusal_of([&] {
                    world.subgroup(rank == odd ? std::vector<int>{0} : std::vector<int>{1});
                  }),
                  HasSubstr("the same list of ranks"));
    }
    const auto part = world.split(0);  // and the group is as it was
    EXPECT_EQ(part->world_size(), size);
    part->barrier();
  });
}

// Each would else take the other's words for its own.
TEST_P(Groups, ThatRanksMakeByUnlikeCallsAreRefusedOnAllRanks) {
  if (world_size() < 2) return;
  run([](ProcessGroup world) {
    const int last = world.world_size() - 1;
    const bool odd = world.rank() == last;
    const auto said = [&](const char* first, const char* other) {
      return HasSubstr(
          concat("all of its ranks make the same calls in the same order (got rank 0: ",
                 first,
                 "; rank ",
                 last,
                 ": ",
                 other,
                 ")"));
    };
    EXPECT_THAT(refusal_of([&] { odd ? world.subgroup({0}) : world.split(0); }),
                said("split", "subgroup"));
    EXPECT_THAT(refusal_of([&] {
                  if (odd) return void(world.split(3));
                  distributed::DeviceMesh(world, {{"data", -1}});
                }),
                said("a device mesh", "split"));
    EXPECT_THAT(refusal_of([&] {
                  if (odd) return void(world.split(kNoColor));
                  world.all_gather_text("mine");
                }),
                said("all_gather_text", "split"));
    const auto part = world.split(0);  // and the group is as it was
    EXPECT_EQ(part->world_size(), world.world_size());
    part->barrier();
  });
}

TEST_P(Groups, NameWhoFailsByItsRankInTheWorldToo) {
  if (world_size() < 4) return;
  std::vector<std::string> errors(static_cast<size_t>(world_size()));
  std::latch seen(world_size() - 1);
  run([&](ProcessGroup world) {
    const int rank = world.rank();
    {
      const auto part = world.split(rank % 2, 0, {.name = "stages"});
      if (rank != 3) {
        torch::Tensor sum = torch::ones({4});
        errors[static_cast<size_t>(rank)] = error_of([&] { part->all_reduce(sum); });
      }
    }
    if (rank != 3) seen.arrive_and_wait();
  });
  EXPECT_EQ(errors[0], kNoError);
  EXPECT_EQ(errors[2], kNoError);
  EXPECT_THAT(
      errors[1],
      AllOf(HasSubstr("rank 1"), HasSubstr("rank 1 of group stages is rank 3 of the world")));
}

TEST_P(Groups, ThatFailDoNoHarmToOthers) {
  if (world_size() < 2) return;
  run([&](ProcessGroup world) {
    const auto good = world.split(0, 0, {.name = "good"});
    {
      const auto bad = world.split(0, 0, {.name = "bad"});
      torch::Tensor sum = torch::ones({world.rank() == 0 ? 4 : 5});
      EXPECT_NE(error_of([&] { bad->all_reduce(sum); }), kNoError);
      world.barrier();  // all have seen it
    }
    torch::Tensor sum = torch::ones({4});
    good->all_reduce(sum);
    EXPECT_EQ(sum[0].item<float>(), float(world.world_size()));
    const auto again = world.split(0);
    again->barrier();
  });
}

TEST_P(Groups, OfAMeshAreThoseOfTorchsDeviceMesh) {
  const Json golden = test::read_golden("device_mesh");
  run([&](ProcessGroup world) {
    for (const Json& config : golden["meshes"]) {
      std::vector<distributed::MeshAxis> axes;
      int64_t ranks = 1;
      for (const Json& axis : config["axes"]) {
        axes.push_back({axis[0].get<std::string>(), axis[1].get<int64_t>()});
        ranks *= axes.back().size;
      }
      if (ranks != world.world_size()) continue;
      const Json& expected = config["ranks"][static_cast<size_t>(world.rank())];
      const DeviceMesh mesh(world, axes);
      EXPECT_EQ(mesh.coordinates(), expected["coordinates"].get<std::vector<int64_t>>());
      EXPECT_EQ(mesh.rank_at(mesh.coordinates()), world.rank());
      for (const auto& [name, members] : expected["groups"].items()) {
        EXPECT_EQ(mesh.coordinate(name), expected["places"][name].get<int64_t>());
        EXPECT_EQ(mesh.group(name).rank(), mesh.coordinate(name));
        EXPECT_EQ(mesh.group(name).world_size(), mesh.size(name));
        EXPECT_EQ(told_ranks(mesh.group(name), world), members.get<std::vector<int64_t>>());
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, Groups, ::testing::ValuesIn(test::over_all()), test::name_of);

TEST(Mesh, OfThreeAxesIsRowMajorAndHasGroupsOverSeveral) {
  const Json golden = test::read_golden("device_mesh");
  testing::run_ranks(8, [&](ProcessGroup world) {
    const DeviceMesh mesh(world, {{"data", -1}, {"pipeline", 2}, {"shard", 2}});
    for (const Json& config : golden["meshes"]) {
      if (config["axes"].size() != 3 || config["ranks"].size() != 8) continue;
      const Json& expected = config["ranks"][static_cast<size_t>(world.rank())];
      for (const auto& [name, members] : expected["groups"].items())
        EXPECT_EQ(told_ranks(mesh.group(name), world), members.get<std::vector<int64_t>>()) << name;
    }
    EXPECT_EQ(mesh.size("data"), 2);
    EXPECT_EQ(mesh.rank_at({1, 0, 1}), 5);
    const ProcessGroup both = mesh.group_over({"shard", "data"});
    const int64_t stage = mesh.coordinate("pipeline");
    EXPECT_EQ(told_ranks(both, world),
              (std::vector<int64_t>{2 * stage, 2 * stage + 1, 4 + 2 * stage, 5 + 2 * stage}));
    EXPECT_THAT(refusal_of([&] { mesh.group("tensor"); }),
                AllOf(HasSubstr("data=2 pipeline=2 shard=2"), HasSubstr("tensor")));
    EXPECT_THAT(refusal_of([&] { mesh.rank_at({1, 2, 0}); }), HasSubstr("1, 2, 0"));
  });
}

TEST(Mesh, ThatDoesNotFitIsRefusedOnAllRanks) {
  testing::run_ranks(4, [&](ProcessGroup world) {
    const auto refusal = [&](std::vector<distributed::MeshAxis> axes) {
      return refusal_of([&] { DeviceMesh(world, axes); });
    };
    EXPECT_THAT(refusal({{"a", 3}}), HasSubstr("a=3 for 4 ranks"));
    EXPECT_THAT(refusal({{"a", 2}, {"b", 3}}), HasSubstr("the number of ranks"));
    EXPECT_THAT(refusal({{"a", -1}, {"b", 3}}), HasSubstr("the number of ranks"));
    EXPECT_THAT(refusal({{"a", -1}, {"b", -1}}), HasSubstr("one of them may be -1"));
    EXPECT_THAT(refusal({{"a", 0}, {"b", 4}}), HasSubstr("at least one rank"));
    EXPECT_THAT(refusal({{"a", 2}, {"a", 2}}), HasSubstr("a name of its own"));
    EXPECT_THAT(refusal({{"", 4}}), HasSubstr("a name of its own"));
    EXPECT_THAT(refusal({}), HasSubstr("at least one axis"));
    EXPECT_THAT(refusal({{"a", world.rank() == 2 ? 2 : 4}}), HasSubstr("rank 0: a=4; rank 2: a=2"));
    DeviceMesh(world, {{"a", 4}}).group("a").barrier();
  });
}

TEST(GroupsOfGroups, OfThreadsAndOfSharedMemoryHaveNoThreadsOfTheirOwn) {
  for (const char* backend : {"thread", "shm"}) {
    testing::run_ranks(3,
                       [&](ProcessGroup world) {
                         world.barrier();
                         world.barrier();  // the first one is past for all
                         const int64_t before = test::thread_count();
                         world.barrier();
                         std::vector<ProcessGroup> groups;
                         for (int i = 0; i < 4; ++i) {
                           groups.push_back(*world.split(0));
                           groups.back().barrier();
                           groups.push_back(*groups.back().split(groups.back().rank() % 2));
                           groups.back().barrier();
                         }
                         world.barrier();
                         EXPECT_LE(test::thread_count(), before)
                             << backend;  // those of other tests may end
                         world.barrier();
                       },
                       {.backend = backend});
  }
}

}  // namespace
}  // namespace muster
