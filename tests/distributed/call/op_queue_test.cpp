// Operations in the order in which they were issued, and who runs them.
#include "muster/distributed/call/op_queue.h"

#include <atomic>
#include <chrono>
#include <latch>

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace muster::distributed {
namespace {

PendingWorkPtr work_of(const std::shared_ptr<OpQueue>& queue, uint64_t sequence) {
  return c10::make_intrusive<PendingWork>(
      0, c10d::OpType::ALLREDUCE, sequence, std::vector<at::Tensor>{}, queue);
}

TEST(OpQueue, AThreadThatWaitsForAnOperationRunsNoneBehindIt) {
  const auto queue = std::make_shared<OpQueue>([] { return std::string(); });
  const auto first = work_of(queue, 0), second = work_of(queue, 1);
  // One that is on its way out: not queued any more, not yet complete.
  const auto leaving = work_of(queue, 2);
  std::latch told(1), go_on(1);
  first->getFuture()->addCallback([&](c10::ivalue::Future&) {
    told.count_down();
    go_on.wait();
  });
  std::thread::id runner;
  queue->submit(
      first, [] {}, false);
  told.wait();  // the queue is free, and its own thread in the callback
  queue->submit(
      second, [&] { runner = std::this_thread::get_id(); }, false);
  queue->help(*leaving, std::nullopt);
  EXPECT_FALSE(second->isCompleted());
  queue->help(*second, std::nullopt);
  EXPECT_TRUE(second->isCompleted());
  EXPECT_EQ(runner, std::this_thread::get_id());
  go_on.count_down();
  queue->close("the test is over");
}

TEST(OpQueue, GoesOnAfterACallbackThatThrows) {
  const auto queue = std::make_shared<OpQueue>([] { return std::string(); });
  const auto first = work_of(queue, 0), second = work_of(queue, 1);
  first->getFuture()->addCallback(
      [](c10::ivalue::Future&) { throw std::runtime_error("in the callback"); });
  std::latch done(1);
  second->getFuture()->addCallback([&](c10::ivalue::Future&) { done.count_down(); });
  queue->submit(
      first, [] {}, false);
  queue->submit(
      second, [] {}, false);
  done.wait();
  EXPECT_THROW(first->wait(), std::runtime_error);
  queue->close("the test is over");
}

// A step that runs out of memory or not by what the queue's thread still holds would have other numbers
// in each run.
TEST(OpQueue, HoldsNothingWhenAWaiterGoesOn) {
  const auto queue = std::make_shared<OpQueue>([] { return std::string(); });
  const at::Tensor tensor = at::zeros({4});
  auto work = c10::make_intrusive<PendingWork>(
      0, c10d::OpType::ALLREDUCE, 0, std::vector<at::Tensor>{tensor}, queue);
  std::latch told(1);
  std::atomic<bool> is_over = false;
  work->getFuture()->addCallback([&](c10::ivalue::Future&) {
    told.count_down();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // as a thread without a core
    is_over = true;
  });
  queue->submit(
      work, [] {}, false);
  told.wait();
  work->wait();
  EXPECT_TRUE(is_over);
  work.reset();
  EXPECT_EQ(tensor.use_count(), 1);
  queue->close("the test is over");
}

}  // namespace
}  // namespace muster::distributed
