// Why a rank ended is told by its backend where no heartbeat comes through.
#include <chrono>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/torch.h>

#include "muster/distributed/meet/backend.h"
#include "muster/distributed/monitor/monitored_backend.h"
#include "muster/distributed/thread/thread_exchange.h"

#include "tests/support/error_of.h"

namespace muster::distributed {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Two ranks over shm, each with a store of its own: neither hears the other's heartbeats.
class RanksThatHearNoHeartbeat : public ::testing::Test {
 protected:
  c10::intrusive_ptr<c10d::Backend> rank(int rank) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    return monitored(
        backends().at("shm").make(
            {.store = store, .rank = rank, .world_size = 2, .timeout = 60s, .exchange = exchange_}),
        {.store = store, .rank = rank, .world_size = 2, .timeout = 60s, .threads = true},
        {.heartbeat = 20ms});
  }
  std::string refusal_of_rank_1() {
    std::vector<at::Tensor> tensors{torch::ones({2})};
    return test::error_of([&] { rank_1_->allreduce(tensors)->wait(); });
  }

  std::shared_ptr<ThreadExchange> exchange_ = std::make_shared<ThreadExchange>(2);
  c10::intrusive_ptr<c10d::Backend> rank_0_ = rank(0), rank_1_ = rank(1);
};

TEST_F(RanksThatHearNoHeartbeat, AreToldWhyAPeerFailed) {
  monitored_in(*rank_0_)->failed_by_itself("its disk is full\nframe #0");
  rank_0_.reset();
  EXPECT_THAT(refusal_of_rank_1(),
              AllOf(HasSubstr("rank 0 has ended"),
                    HasSubstr("rank 0 failed: its disk is full"),
                    Not(HasSubstr("frame"))));
}

TEST_F(RanksThatHearNoHeartbeat, AreToldThatAnExceptionEndedAPeer) {
  try {
    const auto dropped = std::move(rank_0_);
    throw std::runtime_error("not yet said");
  } catch (const std::runtime_error&) {
  }
  EXPECT_THAT(refusal_of_rank_1(), HasSubstr("rank 0 failed: an exception ended its part"));
}

TEST_F(RanksThatHearNoHeartbeat, BlameNobodyForAnEndInPeace) {
  rank_0_.reset();
  EXPECT_THAT(refusal_of_rank_1(), AllOf(HasSubstr("rank 0 has ended"), Not(HasSubstr("failed:"))));
}

}  // namespace
}  // namespace muster::distributed
