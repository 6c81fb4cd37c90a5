#include "muster/distributed/meet/meeting.h"

#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "muster/base/error.h"

#include "tests/support/error_of.h"

namespace muster::distributed {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

struct Comer {
  RankEnv env;
  std::string program = "train";
  std::string key = {};
  std::string process = {};  // who, if not what job_card says
};

Comer comer(int64_t rank, int64_t world_size) {
  return {.env = {.rank = rank, .world_size = world_size, .local_world_size = world_size}};
}

/// What each of them is told, "" for an open meeting. They come one after the other, and wait all.
std::vector<std::string> told(const std::vector<Comer>& comers, std::chrono::milliseconds timeout) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> errors(comers.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < comers.size(); ++i) {
    threads.emplace_back([&, i] {
      const Comer& comer = comers[i];
      JobCard card = job_card(comer.env, comer.program, comer.key);
      if (!comer.process.empty()) card.who = comer.process;
      errors[i] = test::error_of([&] {
        meet(*store, comer.env.rank, comer.env.world_size, card, timeout, comer.env.rank == 0);
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

std::vector<std::string> told(const std::function<void(Comer&)>& change_last) {
  std::vector<Comer> comers{comer(0, 3), comer(1, 3), comer(2, 3)};
  change_last(comers[2]);
  return told(comers, 60s);
}

TEST(Meeting, IsOpenWhenAllHaveCome) {
  EXPECT_THAT(told([](Comer&) {}), Each(test::kNoError));
  EXPECT_THAT(told({comer(0, 1)}, 60s), Each(test::kNoError));
}

TEST(Meeting, TellsAllRanksWhatOneWasToldDifferently) {
  EXPECT_THAT(told([](Comer& c) { c.env.run_id = "b2"; }),
              Each(AllOf(HasSubstr("the run id is "),
                         HasSubstr("none for rank"),
                         HasSubstr("b2 for rank 2 (process "))));
  EXPECT_THAT(
      told([](Comer& c) { c.env.world_size = 4; }),
      Each(AllOf(
          HasSubstr("the world size is "), HasSubstr("3 for rank"), HasSubstr("4 for rank 2"))));
  EXPECT_THAT(told([](Comer& c) { c.env.restart_count = 1; }),
              Each(HasSubstr("the number of restarts is ")));
  EXPECT_THAT(told([](Comer& c) { c.program = "eval"; }),
              Each(AllOf(HasSubstr("the program is "), HasSubstr("eval for rank 2"))));
  EXPECT_THAT(told([](Comer& c) { c.key = "abcd"; }),
              Each(AllOf(HasSubstr("not set for rank"), HasSubstr("one with the print abcd"))));
}

TEST(Meeting, DoesNotCompareWhatALauncherDidNotTell) {
  // A script that sets RANK and WORLD_SIZE alone, and machines with different numbers of ranks.
  EXPECT_THAT(told([](Comer& c) {
                c.env.group_world_size = 2;
                c.env.local_world_size = 1;
              }),
              Each(test::kNoError));
}

TEST(Meeting, TellsAllRanksThatOneWasStartedTwice) {
  EXPECT_THAT(told([](Comer& c) {
                c.env.rank = 1;
                c.process = "rank 1 (process 9 on here)";
              }),
              Each(AllOf(HasSubstr("rank 1 was started twice: rank 1 (process "),
                         HasSubstr("rank 1 (process 9 on here)"))));
}

TEST(Meeting, NamesThoseWhoDidNotComeInTime) {
  EXPECT_THAT(told({comer(1, 4)}, 50ms),
              Each(AllOf(HasSubstr("rank 0, 2, 3 did not come to the meeting of ranks"),
                         HasSubstr("have waited for 0.05 s"))));
}

TEST(Meeting, ThatIsOpenIsNotEndedByWhoComesLater) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Comer one = comer(0, 1);
  const JobCard card = job_card(one.env, "train", "");
  meet(*store, 0, 1, card, 60s, true);
  JobCard stranger = card;
  stranger.who = "rank 0 (process 9 on here)";
  EXPECT_THAT(test::error_of([&] { meet(*store, 0, 1, stranger, 60s, false); }),
              HasSubstr("started twice"));
  EXPECT_EQ(store->get_to_str("outcome"), "open");
}

}  // namespace
}  // namespace muster::distributed
