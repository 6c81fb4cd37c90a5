// The way of batches to a device, with a fake one: what is written when, and who waits.
#include "muster/tensor/device/pinned_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/fake_devices.h"

namespace muster {
namespace {

using tensor::PinnedRing;
using test::fake;
using test::journal;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A ring of two slots to a fake device. `queued` are the pinned tensors that were sent, whose
/// memory a later copy writes over.
struct Rig {
  std::vector<int64_t> allocated;
  std::vector<at::Tensor> queued;
  PinnedRing ring{fake(1),
                  {.allocate =
                       [this](int64_t bytes) {
                         allocated.push_back(bytes);
                         return at::empty({bytes}, at::kByte);
                       },
                   .send =
                       [this](const at::Tensor& pinned) {
                         queued.push_back(pinned);
                         return pinned.clone();
                       }},
                  2};
};

at::Tensor rows(int64_t count, float value) { return at::full({count, 4096}, value); }

TEST(PinnedRing, ASlotIsWrittenAgainOnlyAfterTheEventBehindItsCopy) {
  Rig rig;
  journal.take();
  EXPECT_TRUE(rig.ring.copy(rows(8, 1)).equal(rows(8, 1)));
  EXPECT_TRUE(rig.ring.copy(rows(8, 2)).equal(rows(8, 2)));
  EXPECT_THAT(journal.take(), ElementsAre("record 0 on 1", "record 0 on 1"));
  EXPECT_NE(rig.queued[0].data_ptr(), rig.queued[1].data_ptr());
  EXPECT_TRUE(rig.ring.copy(rows(8, 3)).equal(rows(8, 3)));
  EXPECT_THAT(journal.take(), ElementsAre("host waits", "record 0 on 1"));
  EXPECT_EQ(rig.queued[2].data_ptr(), rig.queued[0].data_ptr());
  EXPECT_TRUE(rig.queued[1].equal(rows(8, 2)));  // the other slot is untouched
}

TEST(PinnedRing, TheEventIsOnTheStreamOfTheCopy) {
  Rig rig;
  test::FakeDevices().exchangeStream(c10::Stream(c10::Stream::UNSAFE, fake(1), 9));
  journal.take();
  rig.ring.copy(rows(8, 1));
  EXPECT_THAT(journal.take(), ElementsAre("record 9 on 1"));
  test::FakeDevices().exchangeStream(c10::Stream(c10::Stream::UNSAFE, fake(1), 0));
}

TEST(PinnedRing, SlotsGrowAndAreKept) {
  Rig rig;
  for (const int64_t count : {8, 16, 12, 4, 32}) {
    const at::Tensor host = torch::randn({count, 4096});
    EXPECT_TRUE(rig.ring.copy(host).equal(host)) << count;
  }
  const int64_t row = 4096 * 4;
  EXPECT_THAT(rig.allocated, ElementsAre(8 * row, 16 * row, 12 * row, 32 * row));
}

TEST(PinnedRing, TakesAnyTypeAndLayout) {
  Rig rig;
  const at::Tensor labels = torch::arange(40000, at::kLong);
  const at::Tensor image = torch::randn({300, 400});
  for (const at::Tensor& host :
       {labels, image.to(at::kHalf), image.t(), image.slice(1, 0, 400, 2)}) {
    const at::Tensor there = rig.ring.copy(host);
    EXPECT_EQ(there.scalar_type(), host.scalar_type());
    EXPECT_TRUE(there.equal(host));
  }
  EXPECT_EQ(rig.allocated.size(), 3U);
}

TEST(PinnedRing, WhatIsSmallOrNeedsAGradientGoesStraight) {
  Rig rig;
  journal.take();
  const at::Tensor small = rows(1, 1), wanted = rows(8, 1).requires_grad_();
  rig.ring.copy(small);
  const at::Tensor there = rig.ring.copy(wanted);
  EXPECT_TRUE(there.requires_grad());
  EXPECT_EQ(rig.queued[0].data_ptr(), small.data_ptr());
  EXPECT_THAT(rig.allocated, IsEmpty());
  EXPECT_THAT(journal.take(), IsEmpty());
}

}  // namespace
}  // namespace muster
