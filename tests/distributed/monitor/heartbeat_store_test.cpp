// What a rank learns of others through the store, where these write what the test wants.
#include "muster/distributed/monitor/heartbeat_store.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/torch.h>

#include "muster/base/text.h"
#include "muster/distributed/call/op_queue.h"
#include "muster/distributed/call/posting_backend.h"
#include "muster/distributed/monitor/monitor.h"

#include "tests/support/error_of.h"

namespace muster::distributed {
namespace {

using namespace std::chrono_literals;
using Clock = HeartbeatStore::Clock;
using Kind = diagnose::Diagnosis::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

constexpr auto kHeartbeat = 200ms;
/// Of what must come: the machine may stand still meanwhile.
constexpr auto kPatience = 20s;

/// Rank 0 of a group whose other ranks are texts in a store.
class Board : public ::testing::Test {
 protected:
  explicit Board(int world_size = 4)
      : store_(c10::make_intrusive<c10d::HashStore>()),
        recorder_(std::make_shared<diagnose::FlightRecorder>()),
        op_(recorder_->post({.kind = diagnose::OpKind::kGather, .root = 0})),
        heartbeats_(store_, {.world_size = world_size, .heartbeat = kHeartbeat}, recorder_) {}

  void write(const diagnose::PeerState& state) {
    c10d::PrefixStore("monitor", store_).set(concat("state/", state.rank), peer_state_text(state));
  }
  diagnose::Diagnosis look() {
    return diagnose::diagnose(
        {.op = op_, .rank = 0}, heartbeats_.peers(), heartbeats_.store(), heartbeats_.stale_s());
  }
  /// The first diagnosis that is as wanted, or the last one when the patience is over.
  diagnose::Diagnosis first(const std::function<bool(const diagnose::Diagnosis&)>& is_wanted) {
    const auto until = Clock::now() + kPatience;
    while (true) {
      const uint64_t seen = heartbeats_.version();
      diagnose::Diagnosis found = look();
      if (is_wanted(found) || Clock::now() > until) return found;
      // Silence is nothing that comes: it shows by looking again.
      heartbeats_.wait_until(seen, Clock::now() + heartbeats_.fast_heartbeat());
    }
  }
  diagnose::Diagnosis certain() {
    return first([](const diagnose::Diagnosis& found) { return found.certain; });
  }

  const StorePtr store_;
  const std::shared_ptr<diagnose::FlightRecorder> recorder_;
  const diagnose::OpRecord op_;
  HeartbeatStore heartbeats_;
};

/// Ranks of another host, whose processes the kernel here does not know.
class BoardOfHosts : public Board {
 protected:
  BoardOfHosts() : peers_([this] { beat(); }) {}
  ~BoardOfHosts() override {
    ends_ = true;
    peers_.join();
  }
  /// For three heartbeats at least, in which all ranks have beaten often.
  void let_beat() const {
    const uint64_t from = beats_;
    std::this_thread::sleep_for(3 * kHeartbeat);
    while (beats_ < from + 20) std::this_thread::sleep_for(1ms);
  }
  std::atomic<int> silent_rank_{-1};

 private:
  void beat() {
    for (uint64_t beat = 1; !ends_; ++beat) {
      for (const int64_t rank : {1, 2, 3}) {
        if (rank != silent_rank_)
          write({.rank = rank, .beat = beat, .process = {.host = "far", .pid = 100 + rank}});
      }
      beats_ = beat;
      std::this_thread::sleep_for(kHeartbeat / 10);
    }
  }
  std::atomic<bool> ends_{false};
  std::atomic<uint64_t> beats_{0};
  std::thread peers_;
};

TEST_F(BoardOfHosts, OnlyTheRankThatFellSilentIsNamedThoughTheOthersWereNeverReadBefore) {
  let_beat();
  for (int round = 0; round < 2; ++round) {  // the second time, old heartbeats are known
    heartbeats_.set_alarm(true);
    const diagnose::Diagnosis alarm = first([](const diagnose::Diagnosis& found) {
      EXPECT_FALSE(found.certain);
      EXPECT_NE(found.kind, Kind::kSilent) << found.who;
      return found.kind == Kind::kMissing;
    });
    EXPECT_EQ(alarm.kind, Kind::kMissing);
    heartbeats_.set_alarm(false);
    let_beat();
  }
  silent_rank_ = 2;
  const auto start = Clock::now();
  heartbeats_.set_alarm(true);
  const diagnose::Diagnosis found = certain();
  EXPECT_EQ(found.kind, Kind::kSilent);
  EXPECT_THAT(found.culprits, ElementsAre(2));
  EXPECT_GT(Clock::now() - start, 2 * kHeartbeat);
}

// Killed on another host just before: its last heartbeat is there to be read, and says nothing.
TEST_F(Board, ARankOfAnotherHostIsNotSaidToBeAliveForAnOldHeartbeat) {
  for (const int64_t rank : {1, 2, 3})
    write({.rank = rank, .beat = 5, .process = {.host = "far", .pid = 100 + rank}});
  heartbeats_.set_alarm(true);
  const diagnose::Diagnosis found = first([](const diagnose::Diagnosis& diagnosis) {
    EXPECT_NE(diagnosis.kind, Kind::kMissing) << diagnosis.who;
    // Of the neighbour, read before the alarm, silence shows earlier.
    return diagnosis.kind == Kind::kSilent && diagnosis.culprits.size() == 3;
  });
  EXPECT_EQ(found.kind, Kind::kSilent);
  EXPECT_THAT(found.culprits, ElementsAre(1, 2, 3));
}

TEST_F(Board, ARankThatDidItsPartAndEndedIsNotGoneByAnOldHeartbeat) {
  diagnose::ProcessId ended = diagnose::this_process();
  ++ended.started;
  ASSERT_EQ(diagnose::life_of(ended), diagnose::Life::kGone);
  write({.rank = 1, .beat = 1, .process = diagnose::this_process()});
  write({.rank = 2, .beat = 1, .process = ended});
  write({.rank = 3, .beat = 1, .process = diagnose::this_process()});
  heartbeats_.set_alarm(true);  // an earlier one
  EXPECT_EQ(certain().kind, Kind::kGone);
  heartbeats_.set_alarm(false);
  std::this_thread::sleep_for(2 * kHeartbeat / 5);
  write({.rank = 2, .beat = 2, .process = ended, .posted = 1, .completed = 1, .ended = true});
  heartbeats_.set_alarm(true);
  const auto start = Clock::now();
  std::vector<int> culprits;
  while (Clock::now() < start + kHeartbeat ||
         (culprits.size() != 2 && Clock::now() < start + kPatience)) {
    const diagnose::Diagnosis found = look();
    ASSERT_FALSE(found.certain) << found.who;
    culprits = found.culprits;
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_THAT(culprits, ElementsAre(1, 3));  // they did not come
}

TEST_F(Board, ACallIsComparedWithTheFirstUntilThatIsWithdrawn) {
  EXPECT_EQ(heartbeats_.agrees({.sequence = 5, .fingerprint = 7}, kPatience), true);
  EXPECT_EQ(heartbeats_.agrees({.sequence = 5, .fingerprint = 7}, kPatience), true);
  EXPECT_EQ(heartbeats_.agrees({.sequence = 5, .fingerprint = 8}, kPatience), false);
  EXPECT_EQ(heartbeats_.agrees({.sequence = 5, .attempt = 1, .fingerprint = 8}, kPatience), true);
  heartbeats_.withdraw({.sequence = 5, .fingerprint = 8});  // was not the first
  EXPECT_EQ(heartbeats_.agrees({.sequence = 5, .fingerprint = 8}, kPatience), false);
  heartbeats_.withdraw({.sequence = 5, .fingerprint = 7});
  EXPECT_EQ(heartbeats_.agrees({.sequence = 5, .fingerprint = 8}, kPatience), true);
  EXPECT_EQ(heartbeats_.agrees({.sequence = 5, .fingerprint = 7}, kPatience), false);
}

/// Counts what it is asked for.
class CountingStore final : public c10d::HashStore {
 public:
  using HashStore::compareSet;
  using HashStore::set;
  c10::intrusive_ptr<Store> clone() override {
    return c10::intrusive_ptr<Store>::reclaim_copy(this);
  }
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    ++beats;  // of all ranks: each writes its state
    HashStore::set(key, value);
  }
  std::vector<uint8_t> compareSet(const std::string& key,
                                  const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override {
    ++requests;
    return HashStore::compareSet(key, expected, desired);
  }
  int64_t add(const std::string& key, int64_t value) override {
    ++requests;
    return HashStore::add(key, value);
  }
  std::atomic<int64_t> beats{0}, requests{0};
};

/// Requests per beat of one rank of so many that all wait for another, once all have seen all.
double requests_per_beat(int ranks) {
  const auto store = c10::make_intrusive<CountingStore>();
  std::vector<std::unique_ptr<HeartbeatStore>> all;
  for (int rank = 0; rank < ranks; ++rank)
    all.push_back(std::make_unique<HeartbeatStore>(
        store,
        HeartbeatOptions{.rank = rank, .world_size = ranks, .heartbeat = kHeartbeat},
        std::make_shared<diagnose::FlightRecorder>()));
  for (const auto& heartbeats : all) heartbeats->set_alarm(true);
  const auto until = Clock::now() + 3 * kPatience;
  for (const auto& heartbeats : all) {
    while (Clock::now() < until) {
      const uint64_t seen = heartbeats->version();
      const auto peers = heartbeats->peers();
      if (std::all_of(peers.begin(), peers.end(), [](const auto& peer) { return peer.is_fresh; }))
        break;
      heartbeats->wait_until(seen, until);
    }
  }
  EXPECT_LT(Clock::now(), until) << "not everybody was read";
  return double(store->requests) / double(store->beats);
}

TEST(HeartbeatsInAlarm, AskTheStoreForNoMoreWhereRanksAreMany) {
  const double few = requests_per_beat(9), many = requests_per_beat(64);
  EXPECT_LE(few, 12);  // eight peers, the verdict, the alarms, and some slack
  EXPECT_LE(many, 12);
  RecordProperty("requests_per_beat_of_64", std::to_string(many));
}

/// Ranks of another host, more than are read in one heartbeat.
class BoardOfManyHosts : public Board {
 protected:
  static constexpr int kRanks = 40;
  BoardOfManyHosts() : Board(kRanks) {}
  void beat(uint64_t number, int silent) {
    for (int64_t rank = 1; rank < kRanks; ++rank)
      if (rank != silent)
        write({.rank = rank, .beat = number, .process = {.host = "far", .pid = 100 + rank}});
  }
};

TEST_F(BoardOfManyHosts, TheRankThatFellSilentIsNamedAndNoOther) {
  std::atomic<bool> ends{false};
  std::atomic<int> silent{-1};
  std::thread peers([&] {
    for (uint64_t number = 1; !ends; ++number) {
      beat(number, silent);
      std::this_thread::sleep_for(kHeartbeat / 10);
    }
  });
  heartbeats_.set_alarm(true);
  const diagnose::Diagnosis alarm = first([](const auto& diagnosis) {
    return diagnosis.kind == Kind::kMissing && diagnosis.culprits.size() == kRanks - 1;
  });
  EXPECT_EQ(alarm.kind, Kind::kMissing);
  EXPECT_EQ(alarm.culprits.size(), kRanks - 1);
  silent = 23;
  const diagnose::Diagnosis found =
      first([](const auto& diagnosis) { return diagnosis.kind == Kind::kSilent; });
  EXPECT_EQ(found.kind, Kind::kSilent);
  EXPECT_THAT(found.culprits, ElementsAre(23));
  ends = true;
  peers.join();
}

/// A user's own: takes everything for done, and compares nothing. What `refuse` throws, it refuses.
class CarelessBackend final : public PostingBackend {
 public:
  using Refusal = std::function<void(const Contribution&)>;

  explicit CarelessBackend(
      int rank, Refusal refuse = [](const Contribution&) {})
      : PostingBackend("careless", rank, 2, 60s),
        refuse_(std::move(refuse)),
        queue_(std::make_shared<OpQueue>([] { return std::string(); })) {}
  ~CarelessBackend() override { queue_->close("the group was destroyed"); }

 protected:
  WorkPtr post(uint64_t sequence, Contribution part) override {
    refuse_(part);
    auto work =
        c10::make_intrusive<PendingWork>(getRank(), part.op, sequence, part.results(), queue_);
    queue_->submit(
        work, [] {}, /*now=*/true);
    return work;
  }

 private:
  const Refusal refuse_;
  std::shared_ptr<OpQueue> queue_;
};

class MonitorOfABackendWithoutAnEntry : public ::testing::Test {
 protected:
  /// What `program` throws on each of two ranks.
  std::vector<std::string> errors_of(const std::function<void(c10d::Backend&, int)>& program,
                                     const std::function<void(int)>& in_a_broadcast = {}) {
    std::vector<std::string> errors(2);
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        const auto refuse = [&, rank](const Contribution& part) {
          if (part.op == c10d::OpType::BROADCAST) in_a_broadcast(rank);
        };
        const auto backend = monitored(
            c10::make_intrusive<CarelessBackend>(rank, refuse),
            {.store = store_, .rank = rank, .world_size = 2, .timeout = 60s, .threads = true},
            {});
        errors[static_cast<size_t>(rank)] = test::error_of([&] { program(*backend, rank); });
      });
    }
    for (std::thread& rank : ranks) rank.join();
    return errors;
  }

  /// Of the heartbeat that the rank has written last; 0 before it.
  uint64_t beat_of(int rank) {
    const std::string text = c10d::PrefixStore("monitor", store_)
                                 .compareSet(concat("state/", rank), std::string(), std::string());
    return text.empty() ? 0 : diagnose::parse_peer_state(text, "heartbeat").beat;
  }

 private:
  const StorePtr store_ = c10::make_intrusive<c10d::HashStore>();
};

TEST_F(MonitorOfABackendWithoutAnEntry, ComparesTheCalls) {
  const auto errors = errors_of([](c10d::Backend& backend, int rank) {
    std::vector<at::Tensor> tensors{torch::ones({8 + 4 * rank})};
    for (const auto until = Clock::now() + kPatience; Clock::now() < until;) {
      backend.allreduce(tensors)->wait();
      std::this_thread::sleep_for(5ms);
    }
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error,
                HasSubstr("rank 0 is at all_reduce sum float32[8] #0 while rank 1 is at all_reduce "
                          "sum float32[12] #0"));
}

// As on a machine whose threads get no core: one rank is in the call that all are refused while the other's
// heartbeats show what it called next.
TEST_F(MonitorOfABackendWithoutAnEntry, ACallThatIsRefusedLateIsNoDifference) {
  const auto until = Clock::now() + kPatience;
  const auto refuse = [&](int rank) {
    const uint64_t last = beat_of(1) + 16;
    while (rank == 0 && beat_of(1) < last && Clock::now() < until) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(rank == 1 || beat_of(1) >= last);
    throw std::runtime_error("no broadcast here");
  };
  std::atomic<bool> done = false;
  const auto errors = errors_of(
      [&](c10d::Backend& backend, int rank) {
        std::vector<at::Tensor> tensors{torch::ones({8})};
        EXPECT_EQ(test::error_of([&] { backend.broadcast(tensors); }), "no broadcast here");
        backend.allreduce(tensors)->wait();
        while (rank == 1 && !done && Clock::now() < until) std::this_thread::sleep_for(1ms);
        done = true;
      },
      refuse);
  for (const std::string& error : errors) EXPECT_EQ(error, test::kNoError);
}

}  // namespace
}  // namespace muster::distributed
