// How long an operation took is how long it was under way, whenever somebody looks.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/backend.h"
#include "muster/parallel/formats/timeline.h"
#include "muster/testing/run_ranks.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using parallel::OpRecord;
using parallel::OpState;
using parallel::Phase;
using parallel::ProcessGroup;

/// Nobody polls: the heartbeats come after the test's end.
void run_unseen(const std::string& backend, const std::function<void(const ProcessGroup&)>& main) {
  testing::run_ranks(2, main, {.backend = backend, .watch = {.heartbeat = 30s}});
}

c10::intrusive_ptr<c10d::Work> post(const ProcessGroup& group) {
  std::vector<at::Tensor> tensors{torch::ones({256})};
  return group.c10d()->allreduce(tensors);
}

double milliseconds(const OpRecord& record) {
  return static_cast<double>(record.completed_ns - record.posted_ns) * 1e-6;
}

/// backend
class WatchedDuration : public ::testing::TestWithParam<std::string> {};

TEST_P(WatchedDuration, IsThatOfTheOperationThoughItIsWaitedForMuchLater) {
  run_unseen(GetParam(), [](const ProcessGroup& group) {
    group.barrier();
    const auto work = post(group);
    std::this_thread::sleep_for(600ms);
    const auto before = flight_recorder(group)->since(1);
    ASSERT_EQ(before.size(), 1U);
    EXPECT_EQ(before[0].state, OpState::kCompleted) << "nobody has waited for it yet";
    work->wait();
    const OpRecord after = flight_recorder(group)->since(1)[0];
    EXPECT_EQ(after.completed_ns, before[0].completed_ns);
    EXPECT_LT(milliseconds(after), 300);
    EXPECT_GT(milliseconds(after), 0);
    EXPECT_TRUE(after.waited_ns == 0 || after.waited_ns > after.completed_ns);
  });
}

TEST_P(WatchedDuration, OfAnOperationThatMustWaitForARankHasThatInIt) {
  run_unseen(GetParam(), [](const ProcessGroup& group) {
    group.barrier();
    if (group.rank() == 1) std::this_thread::sleep_for(200ms);
    const auto work = post(group);
    if (group.rank() == 0) std::this_thread::sleep_for(600ms);
    work->wait();
    const double took = milliseconds(flight_recorder(group)->since(1)[0]);
    if (group.rank() == 0) {
      EXPECT_GE(took, 150);
      EXPECT_LT(took, 500);
    } else {
      EXPECT_LT(took, 150);
    }
  });
}

TEST_P(WatchedDuration, OfPointToPointIsThatOfTheMessage) {
  run_unseen(GetParam(), [](const ProcessGroup& group) {
    if (GetParam() == "gloo") return;  // its point-to-point works end where they are waited for
    group.barrier();
    std::vector<at::Tensor> word{torch::ones({3})};
    auto& c10d = *group.c10d();
    const auto work = group.rank() == 0 ? c10d.send(word, 1, 0) : c10d.recv(word, 0, 0);
    std::this_thread::sleep_for(600ms);
    work->wait();
    EXPECT_LT(milliseconds(flight_recorder(group)->since(1)[0]), 300);
  });
}

// As `muster train` does: posted before backward, done 200 ms into it, waited for after it.
TEST_P(WatchedDuration, CommunicationInATimelineEndsWhereTheOperationDoes) {
  run_unseen(GetParam(), [](const ProcessGroup& group) {
    parallel::Timeline timeline({.rank = group.rank(), .recorder = flight_recorder(group)});
    group.barrier();
    timeline.begin_step(0);
    timeline.begin(Phase::kForward);
    if (group.rank() == 1) std::this_thread::sleep_for(200ms);
    const auto work = post(group);
    timeline.begin(Phase::kBackward);
    std::this_thread::sleep_for(600ms);
    timeline.end();
    work->wait();
    timeline.end_step();
    const parallel::TimelineSummary& summary = timeline.summary();
    EXPECT_LT(summary.exposed_s, 0.05);
    EXPECT_LT(summary.overlap_s, 0.5);
    if (group.rank() == 1) return;
    EXPECT_GE(summary.communication_s, 0.15);
    EXPECT_LT(summary.communication_s, 0.5);
    EXPECT_GT(summary.overlap(), 0.9);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends,
                         WatchedDuration,
                         ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const char* name : {"thread", "shm", "gloo"}) {
                             const auto* entry = parallel::backends().find(name);
                             if (entry != nullptr && entry->available().empty())
                               names.emplace_back(name);
                           }
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace muster
