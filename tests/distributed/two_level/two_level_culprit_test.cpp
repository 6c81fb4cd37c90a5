// Who is named when a host of a group of two levels goes with all its ranks, and nobody is left there
// to say so.
#include <array>
#include <latch>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/torch.h>

#include "muster/diagnose/record/peer_state.h"
#include "muster/distributed/monitor/monitor.h"
#include "muster/distributed/thread/thread_exchange.h"
#include "muster/distributed/two_level/two_level.h"

#include "tests/support/error_of.h"

namespace muster::distributed {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Tensors = std::vector<at::Tensor>;

constexpr int kRanks = 4;

/// A last heartbeat of a process that the kernel here knows nothing of.
void beat_from_another_host(const c10::intrusive_ptr<c10d::Store>& store, int rank) {
  diagnose::PeerState state{.rank = rank, .beat = 1};
  state.process = {.host = "another boot", .pid = 4711, .started = 1, .hostname = "node7"};
  c10d::PrefixStore("monitor", store)
      .set("state/" + std::to_string(rank), diagnose::peer_state_text(state));
}

// Rank 1 is alone on its host. Rank 3 has not come yet, and is not to blame.
TEST(TwoLevelCulprit, IsTheOneWhoseHostIsGoneAndNotOneWhoIsLate) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto exchange = std::make_shared<ThreadExchange>(kRanks);
  std::latch others_failed(2), connected(kRanks);
  std::array<std::string, kRanks> errors;
  const auto play = [&](int rank) {
    c10::intrusive_ptr<c10d::Backend> backend =
        c10::make_intrusive<TwoLevelBackend>(BackendRequest{.store = store,
                                                            .rank = rank,
                                                            .world_size = kRanks,
                                                            .timeout = 10min,
                                                            .host = "127.0.0.1",
                                                            .exchange = exchange},
                                             std::vector<std::vector<int>>{{0}, {1}, {2, 3}},
                                             backends().at("shm"),
                                             backends().at("gloo"));
    if (rank == 1) {
      beat_from_another_host(store, rank);
    } else {
      backend = monitored(
          std::move(backend),
          {.store = store, .rank = rank, .world_size = kRanks, .timeout = 10min, .threads = true},
          {.heartbeat = 100ms});
    }
    connected.arrive_and_wait();
    if (rank == 1) return;
    if (rank == 3) return others_failed.wait();
    Tensors tensors{torch::ones({5})};
    errors[size_t(rank)] = test::error_of([&] { backend->allreduce(tensors)->wait(); });
    others_failed.count_down();
  };
  std::array<std::thread, kRanks> ranks;
  for (int rank = 0; rank < kRanks; ++rank) ranks[size_t(rank)] = std::thread(play, rank);
  for (std::thread& rank : ranks) rank.join();
  for (const int rank : {0, 2})
    EXPECT_THAT(errors[size_t(rank)],
                AllOf(HasSubstr("rank 1 gives no sign of life"),
                      HasSubstr("process 4711 on node7"),
                      Not(HasSubstr("rank 3 did not come"))))
        << rank;
}

}  // namespace
}  // namespace muster::distributed
