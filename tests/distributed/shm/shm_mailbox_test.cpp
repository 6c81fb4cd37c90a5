// Messages over a shared segment, where what matters is what the two sides do at the same moment.
#include "muster/distributed/shm/shm_mailbox.h"

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

}  // namespace
}  // namespace muster::distributed
