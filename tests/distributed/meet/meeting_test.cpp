#include "muster/distributed/meet/meeting.h"

#include <atomic>
#include <functional>
#include <future>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "muster/base/error.h"
#include "muster/base/job_key.h"
#include "muster/distributed/meet/sealed_store.h"

#include "tests/support/error_of.h"

namespace muster::distributed {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;
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
        meet(*store,
             comer.env.rank,
             comer.env.world_size,
             card,
             timeout,
             comer.env.rank == 0 ? StoreServer::kThisProcess : StoreServer::kRankZero);
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

TEST(Meeting, TellsADifferenceInTheOrderOfRanksWhoeverCameFirst) {
  const auto card = [](int64_t rank, const std::string& program) {
    return job_card(comer(rank, 12).env, program, "");
  };
  const JobCard two = card(2, "train"), ten = card(10, "evaluate");
  EXPECT_THAT(difference(two, ten), StartsWith("the program is train for rank 2 "));
  EXPECT_EQ(difference(ten, two), difference(two, ten));
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
  EXPECT_THAT(told([](Comer& c) { c.program = "eval"; }),
              Each(AllOf(HasSubstr("the program is "), HasSubstr("eval for rank 2"))));
  EXPECT_THAT(told([](Comer& c) { c.key = "abcd"; }),
              Each(AllOf(HasSubstr("not set for rank"), HasSubstr("one with the print abcd"))));
}

// torchrun's agents count the failures of their own machine: after one on the other they differ.
TEST(Meeting, DoesNotCompareHowOftenEachMachineWasStartedAgain) {
  EXPECT_THAT(told([](Comer& c) { c.env.restart_count = 1; }), Each(test::kNoError));
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

TEST(Meeting, EndsForAllWhenOneThatDidNotComeHasEnded) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> errors(2);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      errors[static_cast<size_t>(rank)] = test::error_of([&] {
        meet(*store,
             rank,
             4,
             job_card(comer(rank, 4).env, "train", ""),
             std::chrono::hours(1),
             StoreServer::kRankZero,
             [&](int64_t other) { return other == 3 || other == rank; });
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(errors, Each(HasSubstr("rank 3 has ended and did not come to the meeting of ranks")));
}

TEST(Meeting, SaysOnceWhomItWaitsForWhenThatTakesLong) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> said;
  std::promise<void> first;
  std::thread waits([&] {
    const auto say = [&](const std::string& text) {
      said.push_back(text);
      first.set_value();
    };
    EXPECT_EQ(test::error_of([&] {
                meet(*store,
                     0,
                     3,
                     job_card(comer(0, 3).env, "train", ""),
                     60s,
                     StoreServer::kThisProcess,
                     nullptr,
                     {.say = say, .after = 0ms});
              }),
              test::kNoError);
  });
  first.get_future().wait();  // the others come when it has said so
  std::vector<std::thread> others;
  for (const int64_t rank : {1, 2}) {
    others.emplace_back([&, rank] {
      meet(*store, rank, 3, job_card(comer(rank, 3).env, "train", ""), 60s, StoreServer::kRankZero);
    });
  }
  for (std::thread& other : others) other.join();
  waits.join();
  EXPECT_THAT(said,
              ElementsAre(AllOf(HasSubstr("waiting for ranks 1, 2 of 3 to come, for "),
                                HasSubstr(" s more at most"))));
}

/// One after the other to one store; what each is told.
class MeetingStore : public ::testing::Test {
 protected:
  std::string come(const Comer& comer,
                   std::chrono::milliseconds timeout = 60s,
                   StoreServer server = StoreServer::kRankZero) {
    JobCard card = job_card(comer.env, comer.program, comer.key);
    if (!comer.process.empty()) card.who = comer.process;
    return test::error_of([&] {
      round_ = meet(*store_, comer.env.rank, comer.env.world_size, card, timeout, server);
    });
  }
  /// An attempt of a job whose launchers serve the store: what its ranks are told.
  std::vector<std::string> attempt(const std::vector<Comer>& comers) {
    std::vector<std::string> errors(comers.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < comers.size(); ++i)
      threads.emplace_back([&, i] { errors[i] = come(comers[i], 60s, StoreServer::kLauncher); });
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

  c10::intrusive_ptr<c10d::Store> store_ = c10::make_intrusive<c10d::HashStore>();
  std::atomic<int64_t> round_{-1};
};

TEST_F(MeetingStore, OfAMeetingThatIsOpenIsNotEndedByWhoComesLater) {
  const Comer one = comer(0, 1);
  EXPECT_EQ(come(one), test::kNoError);
  Comer stranger = one;
  stranger.process = "rank 0 (process 9 on here)";
  EXPECT_THAT(come(stranger), HasSubstr("started twice"));
  EXPECT_EQ(store_->get_to_str("0/outcome"), "open");
}

TEST_F(MeetingStore, TellsWhoComesTooLateThatAndForWhomElseTheOthersWaited) {
  EXPECT_THAT(come(comer(0, 3), 20ms), HasSubstr("rank 1, 2 did not come"));
  const auto since = std::chrono::steady_clock::now();
  EXPECT_THAT(come(comer(1, 3)),
              AllOf(HasSubstr("rank 1, 2 did not come to the meeting of ranks"),
                    HasSubstr("the others have waited for 0.02 s; rank 1 (process "),
                    HasSubstr("came after that")));
  EXPECT_LT(std::chrono::steady_clock::now() - since, 60s);
}

/// Answers nothing any more, as one whose server has ended; or what c10d has not foreseen.
class BrokenStore final : public c10d::HashStore {
 public:
  using c10d::HashStore::wait;
  explicit BrokenStore(bool is_lost) : is_lost_(is_lost) {}
  void wait(const std::vector<std::string>&, const std::chrono::milliseconds&) override {
    throw_it();
  }
  bool check(const std::vector<std::string>&) override { throw_it(); }

 private:
  [[noreturn]] void throw_it() const {
    if (is_lost_) C10_THROW_ERROR(DistNetworkError, "connection reset");
    throw std::runtime_error("out of cheese");
  }
  const bool is_lost_;
};

TEST_F(MeetingStore, IsSaidToBeGoneOnlyIfItsConnectionIs) {
  store_ = c10::make_intrusive<BrokenStore>(true);
  EXPECT_THAT(come(comer(1, 2)),
              AllOf(HasSubstr("the store of the job is gone"), HasSubstr("connection reset")));
  store_ = c10::make_intrusive<BrokenStore>(false);
  EXPECT_THAT(come(comer(1, 2)),
              AllOf(HasSubstr("the ranks could not meet"), HasSubstr("out of cheese")));
}

Comer again(int64_t rank, int64_t world_size, const std::string& process) {
  Comer back = comer(rank, world_size);
  back.process = process;
  return back;
}

TEST_F(MeetingStore, ThatOutlivesAnAttemptLetsTheNextOneMeet) {
  EXPECT_THAT(attempt({comer(0, 2), comer(1, 2)}), Each(test::kNoError));
  EXPECT_EQ(round_, 0);
  EXPECT_THAT(attempt({again(0, 2, "rank 0, later"), again(1, 2, "rank 1, later")}),
              Each(test::kNoError));
  EXPECT_EQ(round_, 1);
  // One of another size, as elastic jobs have, after one that nobody else came to.
  EXPECT_THAT(come(again(1, 2, "rank 1, alone"), 20ms, StoreServer::kLauncher),
              HasSubstr("rank 0 did not come"));
  std::vector<Comer> three;
  for (int rank = 0; rank < 3; ++rank) three.push_back(again(rank, 3, "a rank of three"));
  EXPECT_THAT(attempt(three), Each(test::kNoError));
}

TEST_F(MeetingStore, ThatOutlivesAnAttemptIsLeftByAllForTheNextRound) {
  // Rank 1 had come and was killed before the others were there.
  store_->set("round", std::string("0"));
  store_->set("0/claims/1", std::string("rank 1, that died"));
  EXPECT_THAT(attempt({comer(0, 3), comer(1, 3), comer(2, 3)}), Each(test::kNoError));
  EXPECT_EQ(round_, 1);
}

/// Of a process that is killed while it waits.
class MortalStore final : public c10d::HashStore {
 public:
  using c10d::HashStore::wait;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& time) override {
    if (dies) has_died = true;
    if (has_died) throw std::runtime_error("killed");
    HashStore::wait(keys, time);
  }
  bool check(const std::vector<std::string>& keys) override {
    if (has_died) throw std::runtime_error("killed");
    return HashStore::check(keys);
  }
  bool dies = false, has_died = false;
};

// As under torchrun: rank 0's machine fails first, and rank 1's is started again, too.
TEST_F(MeetingStore, ThatOutlivesAnAttemptDoesNotCountTheDead) {
  const auto store = c10::make_intrusive<MortalStore>();
  store_ = store;
  store->dies = true;
  EXPECT_THAT(come(again(1, 2, "rank 1, killed"), 60s, StoreServer::kLauncher),
              HasSubstr("killed"));
  store->dies = store->has_died = false;
  std::string error_of_first;
  std::thread first([&] { error_of_first = come(comer(0, 2), 60s, StoreServer::kLauncher); });
  while (!store->check({"0/outcome"})) std::this_thread::yield();  // open, by one who is dead
  EXPECT_EQ(come(comer(1, 2), 60s, StoreServer::kLauncher), test::kNoError);
  first.join();
  EXPECT_EQ(error_of_first, test::kNoError);
  EXPECT_EQ(round_, 1);
}

TEST_F(MeetingStore, ThatOutlivesItsRanksStillTellsThemWhatDiffers) {
  Comer other = comer(1, 2);
  other.program = "eval";
  EXPECT_THAT(attempt({comer(0, 2), other}),
              Each(AllOf(HasSubstr("the program is "), HasSubstr("eval for rank 1"))));
  // Rank 0 is there before the others fail: what it finds over it takes for an earlier attempt's.
  const std::string round = std::to_string(std::stoi(store_->get_to_str("round")) + 1);
  std::string of_first;
  std::thread first([&] { of_first = come(again(0, 3, "rank 0"), 60s, StoreServer::kLauncher); });
  while (!store_->check({round + "/claims/0"})) std::this_thread::yield();
  EXPECT_THAT(attempt({again(1, 3, "one rank 1"), again(1, 3, "the other")}),
              Each(HasSubstr("rank 1 was started twice: ")));
  first.join();
  EXPECT_THAT(of_first, HasSubstr("rank 1 was started twice: "));
}

TEST(Meeting, TakesACardThatItCannotReadForOneOfAnotherKey) {
  const c10::intrusive_ptr<c10d::Store> open = c10::make_intrusive<c10d::HashStore>();
  const JobKey key = JobKey::make();
  SealedStore sealed(open, key);
  open->compareSet("0/card", std::string(), std::string("rank 0\nthe run id\tnone"));
  sealed.set("round", std::string("0"));
  const Comer one = comer(1, 2);
  EXPECT_THAT(test::error_of([&] {
                meet(sealed, 1, 2, job_card(one.env, "train", ""), 60s, StoreServer::kRankZero);
              }),
              AllOf(HasSubstr("MUSTER_JOB_KEY is another one"), HasSubstr("for rank 1 (process ")));
}

}  // namespace
}  // namespace muster::distributed
