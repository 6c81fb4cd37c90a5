// Messages over a shared segment, where what matters is what the two sides do at the same moment.
#include "muster/distributed/shm/shm_mailbox.h"

#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/error_of.h"
#include "tests/support/thread_count.h"

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

constexpr int64_t kMuch = 1'000'000;  // 4 MB, and a ring that is not sparse has 256 KiB

TEST(ShmMailbox, ASendWhoseTimeIsOverGoesOnHalfThereOrNotBegunAndEndsNobody) {
  const auto segment = ShmSegment::local(2, /*sparse=*/false);
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
  const auto segment = ShmSegment::local(2, /*sparse=*/false);
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
  const auto segment = ShmSegment::local(2, /*sparse=*/false);
  Side receiver(segment, 0), sender(segment, 1);
  const at::Tensor expected = torch::full({kMuch}, 7.0F), into = torch::zeros({kMuch});
  sender.mailbox->send(0, 0, expected, kTimeout);
  std::thread ending([&] {
    sender.mailbox->end_in_order();
    sender.mailbox->close("the test is over");
  });
  // To collectives it has ended, while its message still comes.
  std::string gone;
  while ((gone = receiver.steps->departure(1)).empty()) std::this_thread::yield();
  EXPECT_EQ(gone, "rank 1 has ended");
  receiver.mailbox->receive(1, 0, into, kTimeout)->wait();
  EXPECT_TRUE(torch::equal(into, expected));
  ending.join();
  EXPECT_THAT(test::error_of([&] { receiver.mailbox->receive(1, 0, into, kTimeout)->wait(); }),
              ::testing::HasSubstr("rank 1 has ended"));
  receiver.mailbox->close("the test is over");
}

TEST(ShmMailbox, StartsNoThreadForReceivesThatAreWaitedForAndSendsThatFit) {
  const auto segment = ShmSegment::local(2);
  Side receiver(segment, 0), sender(segment, 1);
  // Of different sizes, so that the ring's end comes somewhere within a message; most of them come
  // before the ring is empty.
  std::vector<at::Tensor> sent, got;
  for (int i = 0; i < 40; ++i) {
    sent.push_back(torch::full({100'000 + 7'001 * i}, float(i)));
    got.push_back(torch::zeros_like(sent.back()));
  }
  const int64_t before = test::thread_count();
  std::atomic<int> taken{0};
  std::thread sending([&] {
    for (int i = 0; i < 40; ++i) {
      while (i - taken > 1) std::this_thread::yield();  // two find room
      sender.mailbox->send(0, 0, sent[i], kTimeout);
    }
  });
  for (int i = 0; i < 40; ++i, ++taken)
    receiver.mailbox->receive(1, 0, got[i], kTimeout, /*waits=*/true)->wait();
  sending.join();
  test::expect_at_most_threads(before);
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(torch::equal(got[i], sent[i])) << i;
  for (Side* side : {&receiver, &sender}) side->mailbox->close("the test is over");
}

// What one thread waits for may be moved by another that waits, too.
TEST(ShmMailbox, ManyThreadsMayWaitAtOnce) {
  const auto segment = ShmSegment::local(2);
  Side receiver(segment, 0), sender(segment, 1);
  constexpr int kThreads = 4, kEach = 200;
  std::vector<std::thread> receiving;
  for (int tag = 0; tag < kThreads; ++tag) {
    receiving.emplace_back([&, tag] {
      const at::Tensor into = torch::zeros({100});
      for (int i = 0; i < kEach; ++i) {
        receiver.mailbox->receive(1, tag, into, kTimeout, /*waits=*/i % 2 == 0)->wait();
        EXPECT_EQ(into[99].item<float>(), float(1000 * tag + i));
      }
    });
  }
  for (int i = 0; i < kEach; ++i) {
    for (int tag = 0; tag < kThreads; ++tag)
      sender.mailbox->send(0, tag, torch::full({100}, float(1000 * tag + i)), kTimeout);
  }
  for (std::thread& thread : receiving) thread.join();
  for (Side* side : {&receiver, &sender}) side->mailbox->close("the test is over");
}

/// Runs `then` when the work is over.
template <class Then>
void when_over(const PendingWorkPtr& work, Then then) {
  work->getFuture()->addCallback([then](c10::ivalue::Future&) { then(); });
}

// The only thread that waits runs callbacks, too, and one of them may wait for what nobody else waits
// for: a message that is to come, or the rest of one that is to go.
TEST(ShmMailbox, GoesOnWhileTheOnlyWaiterRunsACallback) {
  const auto segment = ShmSegment::local(2);
  Side receiver(segment, 0), sender(segment, 1);
  const at::Tensor one = torch::ones({1}), much = torch::ones({3'000'000});
  std::vector<at::Tensor> into(4);
  for (at::Tensor& tensor : into) tensor = torch::zeros({1});
  const at::Tensor much_into = torch::zeros_like(much);
  std::promise<void> first_is_there, second_is_there, much_is_there;
  const auto sent = receiver.mailbox->send(1, 9, much, kTimeout);
  const auto first = receiver.mailbox->receive(1, 1, into[1], kTimeout);
  const auto second = receiver.mailbox->receive(1, 2, into[2], kTimeout);
  std::atomic<int> in_time{0};
  when_over(second, [&] { second_is_there.set_value(); });
  when_over(first, [&] {
    first_is_there.set_value();
    for (std::promise<void>* other : {&second_is_there, &much_is_there})
      in_time += other->get_future().wait_for(kTimeout) == std::future_status::ready;
  });
  std::thread waiting([&] { receiver.mailbox->receive(1, 3, into[3], kTimeout, true)->wait(); });
  std::this_thread::sleep_for(
      std::chrono::milliseconds(50));  // so that mostly it runs the callback
  sender.mailbox->send(0, 1, one, kTimeout);
  first_is_there.get_future().wait();
  sender.mailbox->send(0, 2, one, kTimeout);
  sender.mailbox->receive(0, 9, much_into, kTimeout, true)->wait();
  much_is_there.set_value();
  sender.mailbox->send(0, 3, one, kTimeout);
  waiting.join();
  first->wait();
  EXPECT_EQ(in_time, 2);
  EXPECT_TRUE(torch::equal(much_into, much));
  for (Side* side : {&receiver, &sender}) side->mailbox->close("the test is over");
}

}  // namespace
}  // namespace muster::distributed
