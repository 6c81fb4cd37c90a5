#include "muster/distributed/meet/connected.h"

#include <cstdlib>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/torch.h>

#include "muster/distributed/meet/backend.h"
#include "muster/testing/run_ranks.h"

#include "tests/support/error_of.h"

namespace muster::distributed {
namespace {

using test::error_of;
using test::kNoError;
using ::testing::AllOf;
using ::testing::HasSubstr;

c10::intrusive_ptr<c10d::Store> a_store() {
  auto store = c10::make_intrusive<c10d::HashStore>();
  store->setTimeout(std::chrono::minutes(1));
  return store;
}

TEST(AllConnected, GoOnTogether) {
  const auto store = a_store();
  std::vector<std::string> errors(3);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.emplace_back([&, rank] {
      errors[static_cast<size_t>(rank)] = error_of([&] { await_all_connected(*store, rank, 3); });
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_THAT(errors, ::testing::Each(kNoError));
  EXPECT_EQ(cannot_connect(*store, 1, "too late to say"), "");
}

TEST(AllConnected, HearWhyOneIsNot) {
  const auto store = a_store();
  std::string error;
  std::thread waits([&] { error = error_of([&] { await_all_connected(*store, 0, 3); }); });
  EXPECT_EQ(cannot_connect(*store, 2, "no route to 10.0.0.1"), "");
  EXPECT_EQ(cannot_connect(*store, 1, "connection closed by peer"), "rank 2: no route to 10.0.0.1");
  waits.join();
  EXPECT_THAT(
      error, AllOf(HasSubstr("could not be connected"), HasSubstr("rank 2: no route to 10.0.0.1")));
}

TEST(AllConnected, SayThatOthersAreNotWhenTheTimeIsOver) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  store->setTimeout(std::chrono::milliseconds(20));
  EXPECT_THAT(error_of([&] { await_all_connected(*store, 1, 2); }),
              HasSubstr("rank 1 is connected, and not all of the others are"));
}

TEST(Connecting, SaysWhoHasNotBegunAndWhereTheOthersAre) {
  const auto store = a_store();
  EXPECT_EQ(connecting_peers(*store, 0, 2), "rank 1 has not begun to connect");
  begin_connecting(*store, 0, "10.0.0.1");
  begin_connecting(*store, 1, "10.0.0.2");
  begin_connecting(*store, 3, "10.0.0.2");
  EXPECT_EQ(connecting_peers(*store, 0, 5),
            "ranks 2 and 4 have not begun to connect; ranks 1 and 3 are at 10.0.0.2");
  EXPECT_EQ(connecting_peers(*store, 1, 2), "rank 0 is at 10.0.0.1");
  const std::vector<int> names = {4, 6, 8};
  EXPECT_EQ(connecting_peers(*store, 0, 3, names),
            "rank 8 has not begun to connect; rank 6 is at 10.0.0.2");
}

/// What rank 0 of two is told whose peer does not answer.
std::string error_without_peer(const c10::intrusive_ptr<c10d::Store>& store) {
  store->setTimeout(std::chrono::milliseconds(200));
  return error_of([&] {
    backends().at("gloo").make({.store = store,
                                .rank = 0,
                                .world_size = 2,
                                .timeout = std::chrono::milliseconds(200),
                                .host = "127.0.0.1"});
  });
}

TEST(Connecting, OfGlooNamesAPeerThatNeverComes) {
  EXPECT_THAT(error_without_peer(a_store()),
              AllOf(HasSubstr("gloo could not connect the ranks: rank 0, at 127.0.0.1"),
                    HasSubstr("rank 1 has not begun to connect")));
}

TEST(Connecting, OfGlooSaysWhereAPeerWasThatDied) {
  const auto store = a_store();
  begin_connecting(*store, 1, "127.0.0.2");
  EXPECT_THAT(error_without_peer(store),
              AllOf(HasSubstr("gloo could not connect the ranks: rank 0, at 127.0.0.1"),
                    HasSubstr("rank 1 is at 127.0.0.2")));
}

TEST(Connecting, OfGlooNamesAnInterfaceThatIsNotThere) {
  ::setenv("GLOO_SOCKET_IFNAME", "no-such-interface", 1);
  const std::string error = error_without_peer(a_store());
  ::unsetenv("GLOO_SOCKET_IFNAME");
  EXPECT_THAT(error, HasSubstr("rank 0, at interface no-such-interface of 127.0.0.1"));
}

// The one that is connected first has left before the other has read its answer.
TEST(AllConnected, LeaveAGlooGroupThatDoesNothingInOrder) {
  for (int i = 0; i < 40; ++i) {
    EXPECT_THAT(testing::rank_errors(2, [](const ProcessGroup&) {}, {.backend = "gloo"}),
                ::testing::Each(""));
  }
}

}  // namespace
}  // namespace muster::distributed
