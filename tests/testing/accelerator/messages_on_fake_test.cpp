// Messages between thread ranks on devices, each with a stream of its own: the numbers that were
// sent, and no race between the streams.
#include <latch>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/testing/run_ranks.h"

#include "tests/testing/accelerator/fake.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using distributed::Work;
using test::kFake0;
using test::kFake1;
using test::same_bits;
using testing::FakeAccelerator;

constexpr int kMessages = 4;

at::Tensor sent_as(int message) { return torch::arange(512).to(torch::kFloat) * (message + 1); }

/// On this thread's stream, over and over in one tensor.
void send_all(const ProcessGroup& group, at::Device device) {
  const at::Tensor out = torch::zeros({512}, device);
  for (int i = 0; i < kMessages; ++i) {
    out.copy_(sent_as(i)).mul_(2);
    group.send(out, 1, {.tag = i % 2});
    out.fill_(-1);  // it is free
  }
}

void expect_all(const std::vector<at::Tensor>& received) {
  for (int i = 0; i < kMessages; ++i)
    EXPECT_TRUE(same_bits(received[static_cast<size_t>(i)] + 1, sent_as(i) * 2 + 1)) << i;
}

void exchange(const std::string& backend, bool asked_first) {
  std::latch first(1);
  testing::run_ranks(
      2,
      [&](ProcessGroup group) {
        const at::Device device = group.rank() == 0 ? kFake0 : kFake1;
        const c10::StreamGuard side(test::fake_guard().getStreamFromGlobalPool(device));
        if (group.rank() == 0) {
          if (asked_first) first.wait();
          send_all(group, device);
          if (!asked_first) first.count_down();
          return;
        }
        if (!asked_first) first.wait();
        std::vector<at::Tensor> received;
        std::vector<Work> works;
        for (int i = 0; i < kMessages; ++i) {
          received.push_back(torch::full({512}, 7.0F, device));
          works.push_back(group.recv_async(received.back(), 0, {.tag = i % 2}));
        }
        if (asked_first) first.count_down();
        for (const Work& work : works) work.wait();
        expect_all(received);
      },
      {.backend = backend});
}

TEST(MessagesOnFake, AreWhatWasSentInWhicheverOrderTheTwoSidesCome) {
  const FakeAccelerator fake({.devices = 2, .poison = true});
  for (const bool asked_first : {false, true}) exchange("thread", asked_first);
}

}  // namespace
}  // namespace muster
