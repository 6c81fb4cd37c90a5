// Messages over a backend that only moves bytes: a wire of this test, which can be cut.
#include "muster/distributed/call/courier.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/error_of.h"

namespace muster::distributed {
namespace {

using test::error_of;
using test::kNoError;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

/// Sends and receives that wait for each other, as gloo's.
class Wire {
 public:
  class Move final : public c10d::Work {
   public:
    Move(Wire& wire, at::Tensor bytes) : wire_(wire), bytes_(std::move(bytes)) {}
    bool wait(std::chrono::milliseconds /*timeout*/) override {
      std::unique_lock lock(wire_.mutex_);
      wire_.changed_.wait(lock, [&] { return moved_ || aborted_ || wire_.cut_; });
      if (!moved_ && wire_.cut_ && !aborted_) throw std::runtime_error("the wire is cut");
      return moved_;
    }
    void abort() override {
      const std::lock_guard lock(wire_.mutex_);
      aborted_ = true;
      wire_.changed_.notify_all();
    }

   private:
    friend class Wire;
    Wire& wire_;
    const at::Tensor bytes_;
    bool moved_ = false, aborted_ = false;  // under the wire's mutex
  };

  std::shared_ptr<Courier> courier(int rank, int world_size = 2) {
    return std::make_shared<Courier>(
        rank,
        world_size,
        [this, rank](const at::Tensor& bytes, int to, int channel) {
          return meet({rank, to, channel}, bytes, true);
        },
        [this, rank](const at::Tensor& bytes, int from, int channel) {
          return meet({from, rank, channel}, bytes, false);
        });
  }

  void cut() {
    const std::lock_guard lock(mutex_);
    cut_ = true;
    changed_.notify_all();
  }

  /// Until so many moves, of either side, wait for their other side.
  void wait_for_moves(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      size_t waiting = 0;
      for (const auto& [line, moves] : waiting_) waiting += moves.size();
      return waiting == count;
    });
  }

 private:
  using MovePtr = c10::intrusive_ptr<Move>;
  using Line = std::tuple<int, int, int>;  // from, to, channel

  MovePtr meet(const Line& line, const at::Tensor& bytes, bool sends) {
    const std::lock_guard lock(mutex_);
    if (cut_) throw std::runtime_error("the wire is cut");
    auto mine = c10::make_intrusive<Move>(*this, bytes);
    auto& others = waiting_[{line, !sends}];
    while (!others.empty() && others.front()->aborted_) others.pop_front();
    if (others.empty()) {
      waiting_[{line, sends}].push_back(mine);
    } else {
      const MovePtr other = others.front();
      others.pop_front();
      const at::Tensor &from = sends ? bytes : other->bytes_, &to = sends ? other->bytes_ : bytes;
      EXPECT_EQ(from.nbytes(), to.nbytes());  // gloo ends the process where they differ
      std::memcpy(to.data_ptr(), from.const_data_ptr(), from.nbytes());
      mine->moved_ = other->moved_ = true;
    }
    changed_.notify_all();
    return mine;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<Line, bool>, std::deque<MovePtr>> waiting_;
  bool cut_ = false;
};

Message to(const at::Tensor& tensor,
           int peer,
           int tag = 0,
           std::chrono::milliseconds timeout = 20s) {
  return {.tensor = tensor, .peer = peer, .tag = tag, .timeout = timeout};
}

struct Couriers {
  Wire wire;
  std::shared_ptr<Courier> a = wire.courier(0), b = wire.courier(1);
  ~Couriers() {
    for (const auto& each : {a, b}) each->close("the test is over");
  }
};

TEST(Courier, GivesMessagesByTagAndInOrder) {
  Couriers ends;
  const at::Tensor out = torch::zeros({3}), in = torch::zeros({3});
  for (int i = 0; i < 6; ++i) ends.a->send(to(out.fill_(i), 1, i % 2));
  for (const int i : {1, 3, 0, 2, 4, 5}) {
    ends.b->receive(to(in, 0, i % 2))->wait();
    EXPECT_EQ(in[0].item<float>(), float(i));
  }
}

TEST(Courier, TakesNothingWhileNobodyAsks) {
  Couriers ends;
  const auto sent = ends.a->send(to(torch::ones({4}), 1));
  ends.wire.wait_for_moves(1);  // its head
  EXPECT_FALSE(sent->isCompleted());
  const at::Tensor in = torch::zeros({4});
  ends.b->receive(to(in, 0))->wait();
  sent->wait();
}

/// Of the next message that comes from rank 0.
float taken_by(Courier& courier) {
  const at::Tensor in = torch::zeros({1});
  courier.receive(to(in, 0))->wait();
  return in.item<float>();
}

// Whether it was begun depends on threads: until it was, once.
TEST(Courier, ASendWhoseTimeIsOverGoesOnIfItWasBegun) {
  Couriers ends;
  for (auto timeout = 1ms;; timeout *= 2) {
    const auto late = ends.a->send(to(torch::full({1}, 1.0F), 1, 0, timeout));
    EXPECT_THAT(error_of([&] { late->wait(); }), HasSubstr("timed out after"));
    const auto fine = ends.a->send(to(torch::full({1}, 2.0F), 1));
    const float first = taken_by(*ends.b);
    if (first == 1.0F) {
      EXPECT_EQ(taken_by(*ends.b), 2.0F);
    } else {
      EXPECT_EQ(first, 2.0F);
    }
    fine->wait();
    if (first == 1.0F) return;
  }
}

TEST(Courier, ASendWhoseTimeIsOverBeforeItWasBegunStays) {
  Couriers ends;
  ends.a->send(to(torch::full({1}, 1.0F), 1));
  const auto queued = ends.a->send(to(torch::full({1}, 2.0F), 1, 0, 5ms));
  ends.a->send(to(torch::full({1}, 3.0F), 1));
  EXPECT_THAT(error_of([&] { queued->wait(); }), HasSubstr("timed out after 5 ms"));
  for (const float value : {1.0F, 2.0F, 3.0F}) EXPECT_EQ(taken_by(*ends.b), value);
}

TEST(Courier, EndsInOrderWhenAllHasLeftThatSomebodyStillWaitsFor) {
  Couriers ends;
  const auto late = ends.a->send(to(torch::full({1}, 1.0F), 1, 0, 1ms));
  EXPECT_NE(error_of([&] { late->wait(); }), kNoError);
  ends.a->end_in_order();  // nobody waits for it any more, whether it was begun or not
  const auto sent = ends.a->send(to(torch::full({1}, 2.0F), 1));
  std::thread ending([&] { ends.a->end_in_order(); });
  while (taken_by(*ends.b) != 2.0F) {
  }
  ending.join();
  sent->wait();
}

// One whose messages the other has taken before it ends takes none itself: its connection ends with
// it, and the other's message is lost.
TEST(Courier, TwoThatEndDoNotWaitForEachOther) {
  Couriers ends;
  const auto there = ends.a->send(to(torch::ones({1000}), 1)),
             back = ends.b->send(to(torch::ones({2}), 0));
  std::thread other([&] {
    ends.b->end_in_order();
    ends.wire.cut();
  });
  ends.a->end_in_order();
  other.join();
  EXPECT_THAT(error_of([&] { there->wait(); }),
              AnyOf(kNoError, HasSubstr("rank 1 has ended, or the connection")));
  back->wait();
}

TEST(Courier, FailsWhoWaitsForALostPeerAndGivesWhatHasCome) {
  Couriers ends;
  const at::Tensor in = torch::zeros({1});
  ends.a->send(to(torch::full({1}, 1.0F), 1, 1));
  ends.a->send(to(torch::full({1}, 2.0F), 1, 2));
  ends.b->receive(to(in, 0, 2))->wait();  // the first is kept
  const auto never = ends.b->receive(to(in, 0, 3));
  ends.wire.wait_for_moves(1);
  ends.wire.cut();
  EXPECT_THAT(error_of([&] { never->wait(); }), HasSubstr("rank 0 has ended, or the connection"));
  EXPECT_THAT(error_of([&] { ends.b->receive(to(in, 0, 3))->wait(); }),
              HasSubstr("the wire is cut"));
  ends.b->receive(to(in, 0, 1))->wait();
  EXPECT_EQ(in.item<float>(), 1.0F);
  EXPECT_THAT(error_of([&] { ends.a->send(to(in, 1))->wait(); }), HasSubstr("rank 1 has ended"));
  EXPECT_THAT(error_of([&] { ends.a->send(to(in, 1))->wait(); }), HasSubstr("rank 1 has ended"));
}

TEST(Courier, MayBeClosedByACallbackOfItsOwn) {
  Couriers ends;
  const at::Tensor in = torch::zeros({1});
  const auto received = ends.b->receive(to(in, 0));
  const auto other = ends.b->receive(to(in, 0, 7));
  const auto closed = received->getFuture()->then(
      [&](c10::ivalue::Future&) {
        ends.b->close("a callback closed it");
        return c10::IValue();
      },
      c10::NoneType::get());
  ends.a->send(to(torch::ones({1}), 1));
  closed->wait();
  received->wait();
  EXPECT_THAT(error_of([&] { other->wait(); }), HasSubstr("a callback closed it"));
  EXPECT_NE(error_of([&] { ends.b->receive(to(in, 0))->wait(); }), kNoError);
}

}  // namespace
}  // namespace muster::distributed
