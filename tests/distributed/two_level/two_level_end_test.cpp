// The end of a group of two levels while one of its ranks waits for another host.
#include <array>
#include <latch>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/torch.h>

#include "muster/distributed/call/pending_work.h"
#include "muster/distributed/thread/thread_exchange.h"
#include "muster/distributed/two_level/two_level.h"

#include "tests/support/error_of.h"

namespace muster::distributed {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

std::latch* called = nullptr;

/// Between hosts: takes calls, and does none of them. As gloo when another host does not come.
class NeverBackend final : public c10d::Backend {
 public:
  NeverBackend(int rank, int world_size) : c10d::Backend(rank, world_size) {}
  const std::string getBackendName() const override { return "never"; }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>&,
                                           Tensors&,
                                           const c10d::AllgatherOptions&) override {
    called->count_down();
    return c10::make_intrusive<PendingWork>(getRank(), c10d::OpType::ALLGATHER, 0, Tensors());
  }
};

constexpr BackendEntry kNever{
    .name = "never",
    .help = "takes calls, and does none of them",
    .preference = -1,
    .type = c10d::ProcessGroup::BackendType::CUSTOM,
    .available = [] { return std::string(); },
    .make =
        [](const BackendRequest& request) {
          return c10::intrusive_ptr<c10d::Backend>(
              c10::make_intrusive<NeverBackend>(request.rank, request.world_size));
        },
    .moves_cpu = true,
    .moves_cuda = false};

/// Two hosts of one rank each; both wait for each other in the first operation.
class WaitingHosts : public ::testing::Test {
 protected:
  WaitingHosts() {
    called = &called_;
    const auto exchange = std::make_shared<ThreadExchange>(2);
    std::array<std::thread, 2> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks[size_t(rank)] = std::thread([&, rank] {
        backends_[size_t(rank)] =
            c10::make_intrusive<TwoLevelBackend>(BackendRequest{.store = store_,
                                                                .rank = rank,
                                                                .world_size = 2,
                                                                .timeout = 30min,
                                                                .exchange = exchange},
                                                 std::vector<std::vector<int>>{{0}, {1}},
                                                 backends().at("shm"),
                                                 kNever);
        works_[size_t(rank)] = backends_[size_t(rank)]->allreduce(tensors_[size_t(rank)], {});
      });
    }
    for (std::thread& rank : ranks) rank.join();
    called_.wait();
  }

  const c10::intrusive_ptr<c10d::Store> store_ = c10::make_intrusive<c10d::HashStore>();
  std::latch called_{2};
  std::array<Tensors, 2> tensors_{Tensors{torch::ones({1})}, Tensors{torch::ones({1})}};
  std::array<c10::intrusive_ptr<TwoLevelBackend>, 2> backends_;
  std::array<c10::intrusive_ptr<c10d::Work>, 2> works_;
};

TEST_F(WaitingHosts, CanBeDropped) {
  for (auto& backend : backends_) backend.reset();
  for (const auto& work : works_)
    EXPECT_THAT(test::error_of([&] { work->wait(); }), HasSubstr("the group was destroyed"));
}

TEST_F(WaitingHosts, CanBeAborted) {
  for (const auto& backend : backends_) backend->abort();
  for (const auto& work : works_)
    EXPECT_THAT(test::error_of([&] { work->wait(); }), HasSubstr("the group was aborted"));
  EXPECT_THAT(test::error_of([&] { backends_[0]->allreduce(tensors_[0], {})->wait(); }),
              HasSubstr("the group was destroyed"));
}

}  // namespace
}  // namespace muster::distributed
