// Messages over a shared segment, where what matters is what the two sides do at the same moment.
#include "muster/distributed/shm/shm_mailbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/error_of.h"

namespace muster::distributed {
namespace {

constexpr auto kTimeout = std::chrono::seconds(20);

struct Side {
  Side(const std::shared_ptr<ShmSegment>& segment, int rank)
      : steps(std::make_shared<ShmSteps>(segment, rank, std::vector<int>{0, 1})),
        mailbox(std::make_shared<ShmMailbox>(steps)) {}
  std::shared_ptr<ShmSteps> steps;
  std::shared_ptr<ShmMailbox> mailbox;
};

// Rank 0 looks around again and again, and takes its time for it, since it asks for many messages:
// so rank 1 mostly sends and ends while it does.
TEST(ShmMailbox, WhatWasSentBeforeTheSenderEndedArrives) {
  for (int trial = 0; trial < 20; ++trial) {
    const auto segment = ShmSegment::local(2);
    Side receiver(segment, 0), sender(segment, 1);
    std::vector<at::Tensor> never(1000);
    for (int i = 0; i < 1000; ++i)
      receiver.mailbox->receive(1, i + 1, never[i] = torch::zeros({1}), kTimeout);
    const at::Tensor into = torch::zeros({1});
    const auto work = receiver.mailbox->receive(1, 0, into, kTimeout);
    std::atomic<bool> over{false};
    std::thread ringing([&] {
      while (!over) segment->rank(0).doorbell.fetch_add(1);
    });
    std::thread peer([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(500 + 37 * trial));
      sender.mailbox->send(0, 0, torch::full({1}, 5.0F), kTimeout);
      sender.steps->end();
    });
    EXPECT_EQ(test::error_of([&] { work->wait(); }), test::kNoError) << trial;
    peer.join();
    over = true;
    ringing.join();
    EXPECT_EQ(into.item<float>(), 5);
    receiver.steps->end();
    for (Side* side : {&receiver, &sender}) side->mailbox->close("the test is over");
  }
}

constexpr int64_t kMuch = 1'000'000;  // 4 MB, and a ring has 256 KiB

TEST(ShmMailbox, ASendWhoseTimeIsOverGoesOnHalfThereOrNotBegunAndEndsNobody) {
  const auto segment = ShmSegment::local(2);
  Side receiver(segment, 0), sender(segment, 1);
  const auto half =
      sender.mailbox->send(0, 1, torch::full({kMuch}, 1.0F), std::chrono::milliseconds(1));
  const auto queued =
      sender.mailbox->send(0, 1, torch::full({kMuch}, 2.0F), std::chrono::milliseconds(1));
  for (const auto& work : {half, queued}) {
    EXPECT_THAT(
        test::error_of([&] { work->wait(); }),
        ::testing::HasSubstr("send float32[1000000] tag 1 from rank 1 to rank 0: timed out"));
  }
  EXPECT_FALSE(sender.steps->has_ended());
  const auto last = sender.mailbox->send(0, 1, torch::full({kMuch}, 3.0F), kTimeout);
  const at::Tensor into = torch::zeros({kMuch});
  for (const float expected : {1.0F, 2.0F, 3.0F}) {
    receiver.mailbox->receive(1, 1, into, kTimeout)->wait();
    EXPECT_TRUE(torch::equal(into, torch::full({kMuch}, expected)));
  }
  last->wait();
  for (Side* side : {&receiver, &sender}) side->mailbox->close("the test is over");
}

// Wherever the message is when its receive gives up, the next one gets it.
TEST(ShmMailbox, AReceiveWhoseTimeIsOverLeavesItsMessageToTheNext) {
  const auto segment = ShmSegment::local(2);
  Side receiver(segment, 0), sender(segment, 1);
  for (int trial = 0; trial < 40; ++trial) {
    const at::Tensor expected = torch::full({kMuch}, float(trial));
    at::Tensor into = torch::zeros({kMuch});
    const auto impatient =
        receiver.mailbox->receive(1, 0, into, std::chrono::milliseconds(trial % 4));
    const auto sent = sender.mailbox->send(0, 0, expected, kTimeout);
    const std::string error = test::error_of([&] { impatient->wait(); });
    if (error != test::kNoError) {
      EXPECT_THAT(error, ::testing::HasSubstr("timed out after"));
      into = torch::zeros({kMuch});
      receiver.mailbox->receive(1, 0, into, kTimeout)->wait();
    }
    sent->wait();
    EXPECT_TRUE(torch::equal(into, expected)) << trial;
  }
  EXPECT_FALSE(sender.steps->has_ended() || receiver.steps->has_ended());
  for (Side* side : {&receiver, &sender}) side->mailbox->close("the test is over");
}

TEST(ShmMailbox, WhoEndsInOrderGivesFirstWhatItHasSent) {
  const auto segment = ShmSegment::local(2);
  Side receiver(segment, 0), sender(segment, 1);
  const at::Tensor expected = torch::full({kMuch}, 7.0F), into = torch::zeros({kMuch});
  sender.mailbox->send(0, 0, expected, kTimeout);
  std::thread ending([&] {
    sender.mailbox->end_in_order();
    sender.mailbox->close("the test is over");
  });
  while (!sender.steps->has_ended()) std::this_thread::yield();
  EXPECT_EQ(receiver.steps->departure(1), "rank 1 has ended");  // to collectives
  receiver.mailbox->receive(1, 0, into, kTimeout)->wait();
  EXPECT_TRUE(torch::equal(into, expected));
  ending.join();
  EXPECT_THAT(test::error_of([&] { receiver.mailbox->receive(1, 0, into, kTimeout)->wait(); }),
              ::testing::HasSubstr("rank 1 has ended"));
  receiver.mailbox->close("the test is over");
}

}  // namespace
}  // namespace muster::distributed
