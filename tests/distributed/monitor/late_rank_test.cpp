// A rank that is late when another one has ended is not named beside it.
#include <latch>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/distributed/call/op_queue.h"
#include "muster/distributed/call/posting_backend.h"
#include "muster/distributed/monitor/monitor.h"

#include "tests/support/error_of.h"

namespace muster::distributed {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Has seen rank 2 end, as over shared memory, and says so of each operation.
class BackendWithADeadPeer final : public PostingBackend {
 public:
  explicit BackendWithADeadPeer(int rank)
      : PostingBackend("shm", rank, 3, 60s),
        queue_(std::make_shared<OpQueue>([] { return std::string(); })) {}
  ~BackendWithADeadPeer() override { queue_->close("the group was destroyed"); }

 protected:
  WorkPtr post(uint64_t sequence, Contribution part) override {
    auto work =
        c10::make_intrusive<PendingWork>(getRank(), part.op, sequence, part.results(), queue_);
    const auto fail = [] {
      throw environment_error({.refused = "rank 2 did not come (rank 2 is dead)"});
    };
    queue_->submit(work, fail, /*now=*/true);
    return work;
  }

 private:
  std::shared_ptr<OpQueue> queue_;
};

TEST(LateRank, IsNotNamedBesideOneThatHasEnded) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::latch connected(2), failed(1);
  std::string error;
  const auto play = [&](int rank) {
    const auto backend =
        monitored(c10::make_intrusive<BackendWithADeadPeer>(rank),
                  {.store = store, .rank = rank, .world_size = 3, .timeout = 60s, .threads = true},
                  {.heartbeat = 200ms});
    connected.arrive_and_wait();
    if (rank == 1) return failed.wait();
    std::vector<at::Tensor> tensors{torch::ones({5})};
    error = test::error_of([&] { backend->allreduce(tensors)->wait(); });
    failed.count_down();
  };
  std::thread late(play, 1);
  play(0);
  late.join();
  EXPECT_THAT(error, AllOf(HasSubstr("rank 2 is dead"), Not(HasSubstr("rank 1 did not come"))));
}

}  // namespace
}  // namespace muster::distributed
