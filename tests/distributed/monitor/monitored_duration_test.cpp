// How long an operation took is how long it was under way, whenever somebody looks.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <semaphore>
#include <thread>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/diagnose/trace/timeline.h"
#include "muster/distributed/meet/backend.h"
#include "muster/testing/run_ranks.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using diagnose::FlightRecorder;
using diagnose::OpRecord;
using diagnose::OpState;
using diagnose::Phase;
using distributed::ProcessGroup;

/// Nobody polls: the heartbeats come after the test's end.
void run_unseen(const std::string& backend, const std::function<void(const ProcessGroup&)>& main) {
  testing::run_ranks(2, main, {.backend = backend, .monitor = {.heartbeat = 30s}});
}

c10::intrusive_ptr<c10d::Work> post(const ProcessGroup& group) {
  std::vector<at::Tensor> tensors{torch::ones({256})};
  return group.c10d()->allreduce(tensors);
}

/// The rank's newest operation, once it is recorded as done, or as it is after 20 seconds. The
/// monitor's own look at what nobody waits for comes later than that.
OpRecord once_done(const ProcessGroup& group) {
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (true) {
    const OpRecord newest = flight_recorder(group)->since(0).back();
    if (newest.state != OpState::kPosted || std::chrono::steady_clock::now() > until) return newest;
    std::this_thread::sleep_for(1ms);
  }
}

/// The moment from which one rank lets another come.
class Signal {
 public:
  void give() { semaphore_.release(); }
  /// A rank that failed never gives it.
  void wait() { EXPECT_TRUE(semaphore_.try_acquire_for(20s)); }

 private:
  std::binary_semaphore semaphore_{0};
};

/// How far back in the past an operation's end is, when somebody waits for it.
constexpr auto kMuchLater = 50ms;

/// backend
class MonitoredDuration : public ::testing::TestWithParam<std::string> {};

// Time is compared with moments that the test has noted, and never with an amount: the machine may
// stand still at any place.
TEST_P(MonitoredDuration, IsThatOfTheOperationThoughItIsWaitedForMuchLater) {
  run_unseen(GetParam(), [](const ProcessGroup& group) {
    group.barrier();
    const auto work = post(group);
    const OpRecord before = once_done(group);
    const int64_t looked = FlightRecorder::now_ns();
    ASSERT_EQ(before.id, 1U);
    EXPECT_EQ(before.state, OpState::kCompleted) << "nobody has waited for it yet";
    std::this_thread::sleep_for(kMuchLater);
    work->wait();
    const OpRecord after = flight_recorder(group)->since(1)[0];
    EXPECT_EQ(after.completed_ns, before.completed_ns);
    EXPECT_LE(after.completed_ns, looked);
    EXPECT_GT(after.completed_ns, after.posted_ns);
    EXPECT_TRUE(after.waited_ns == 0 || after.waited_ns > after.completed_ns);
  });
}

TEST_P(MonitoredDuration, OfAnOperationThatMustWaitForARankHasThatInIt) {
  Signal posted;
  std::atomic<int64_t> came = 0;
  run_unseen(GetParam(), [&](const ProcessGroup& group) {
    group.barrier();
    if (group.rank() == 1) {
      posted.wait();
      std::this_thread::sleep_for(20ms);
      came = FlightRecorder::now_ns();
      post(group)->wait();
      EXPECT_GE(flight_recorder(group)->since(1)[0].posted_ns, came);
      return;
    }
    const auto work = post(group);
    posted.give();
    const OpRecord before = once_done(group);
    const int64_t looked = FlightRecorder::now_ns();
    std::this_thread::sleep_for(kMuchLater);
    work->wait();
    const OpRecord after = flight_recorder(group)->since(1)[0];
    EXPECT_EQ(before.state, OpState::kCompleted);
    EXPECT_LT(after.posted_ns, came);
    EXPECT_GE(after.completed_ns, came);
    EXPECT_LE(after.completed_ns, looked);
  });
}

TEST_P(MonitoredDuration, OfPointToPointIsThatOfTheMessage) {
  run_unseen(GetParam(), [](const ProcessGroup& group) {
    group.barrier();
    std::vector<at::Tensor> word{torch::ones({3})};
    auto& c10d = *group.c10d();
    const auto work = group.rank() == 0 ? c10d.send(word, 1, 0) : c10d.recv(word, 0, 0);
    EXPECT_EQ(once_done(group).state, OpState::kCompleted);
    const int64_t looked = FlightRecorder::now_ns();
    std::this_thread::sleep_for(kMuchLater);
    work->wait();
    EXPECT_LE(flight_recorder(group)->since(1)[0].completed_ns, looked);
  });
}

// As `muster train` does: posted before backward, done within it, waited for after it.
TEST_P(MonitoredDuration, CommunicationInATimelineEndsWhereTheOperationDoes) {
  Signal in_backward;
  run_unseen(GetParam(), [&](const ProcessGroup& group) {
    diagnose::Timeline timeline({.rank = group.rank(), .recorder = flight_recorder(group)});
    group.barrier();
    timeline.begin_step(0);
    timeline.begin(Phase::kForward);
    if (group.rank() == 1) {
      in_backward.wait();
      std::this_thread::sleep_for(20ms);
    }
    const auto work = post(group);
    const int64_t before_backward = FlightRecorder::now_ns();
    timeline.begin(Phase::kBackward);
    const int64_t in_it = FlightRecorder::now_ns();
    if (group.rank() == 0) in_backward.give();
    EXPECT_EQ(once_done(group).state, OpState::kCompleted);
    const int64_t looked = FlightRecorder::now_ns();
    std::this_thread::sleep_for(kMuchLater);
    timeline.end();
    work->wait();
    timeline.end_step();
    const OpRecord record = flight_recorder(group)->since(1)[0];
    EXPECT_LE(record.completed_ns, looked);
    // Sums of whole nanoseconds, in seconds.
    const diagnose::TimelineSummary& summary = timeline.summary();
    const auto seconds = [](int64_t ns) {
      return static_cast<double>(std::max(ns, int64_t{0})) * 1e-9;
    };
    EXPECT_EQ(summary.exposed_s, 0);
    EXPECT_NEAR(summary.communication_s, seconds(record.completed_ns - record.posted_ns), 1e-9);
    EXPECT_GE(summary.overlap_s, seconds(record.completed_ns - in_it) - 1e-9);
    EXPECT_LE(summary.overlap_s, seconds(record.completed_ns - before_backward) + 1e-9);
    if (group.rank() == 1) return;
    EXPECT_GE(summary.overlap_s, 0.02) << "rank 1 came that much later";
  });
}

INSTANTIATE_TEST_SUITE_P(Backends,
                         MonitoredDuration,
                         ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const char* name : {"thread", "shm", "gloo"}) {
                             const auto* entry = distributed::backends().find(name);
                             if (entry != nullptr && entry->available().empty())
                               names.emplace_back(name);
                           }
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace muster
