#include "muster/distributed/meet/connected.h"

#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/torch.h>

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

// The one that is connected first has left before the other has read its answer.
TEST(AllConnected, LeaveAGlooGroupThatDoesNothingInOrder) {
  for (int i = 0; i < 40; ++i) {
    EXPECT_THAT(testing::rank_errors(2, [](const ProcessGroup&) {}, {.backend = "gloo"}),
                ::testing::Each(""));
  }
}

}  // namespace
}  // namespace muster::distributed
