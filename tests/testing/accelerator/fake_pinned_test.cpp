// Pinned memory, and copies that are under way.
#include <ATen/DeviceAccelerator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/testing/accelerator/fake.h"

namespace muster {
namespace {

using test::fake_guard;
using test::kFake0;
using test::same_bits;
using testing::FakeAccelerator;
using testing::FakeRace;
using ::testing::IsEmpty;
using testing::Races;
using ::testing::SizeIs;

at::Tensor pinned_floats(int64_t count) {
  return at::empty({count}, at::TensorOptions(at::kFloat).pinned_memory(true));
}

void wait_for_event() {
  c10::Event event(c10::kPrivateUse1);
  event.record(fake_guard().getStream(kFake0));
  event.synchronize();
}

TEST(FakePinned, MemoryIsPinnedFromAnyPointOfIt) {
  const FakeAccelerator fake;
  const at::Tensor plain = torch::randn({1000}), pinned = plain.pin_memory();
  EXPECT_FALSE(plain.is_pinned());
  EXPECT_TRUE(pinned.is_pinned());
  EXPECT_TRUE(pinned.narrow(0, 7, 5).is_pinned());
  EXPECT_TRUE(pinned_floats(64).is_pinned());
  EXPECT_TRUE(same_bits(plain, pinned));
}

TEST(FakePinned, ACopyToItReadsNanUntilItsEventIsWaitedFor) {
  const FakeAccelerator fake;
  const at::Tensor there = torch::ones({1000}, kFake0), back = pinned_floats(1000);
  back.copy_(there, true);
  EXPECT_TRUE(back.isnan().all().item<bool>());
  wait_for_event();
  EXPECT_TRUE(same_bits(back, torch::ones({1000})));
}

TEST(FakePinned, ACopyThatBlocksIsThereAtOnce) {
  const FakeAccelerator fake;
  const at::Tensor there = torch::ones({1000}, kFake0), back = pinned_floats(1000);
  back.copy_(there);
  EXPECT_TRUE(same_bits(back, torch::ones({1000})));
  const at::Tensor pageable = torch::zeros({1000});
  pageable.copy_(there, true);
  EXPECT_TRUE(same_bits(pageable, torch::ones({1000}))) << "CUDA waits where memory is not pinned";
}

TEST(FakePinned, NobodyIsTakenForAWriterOfBooleansOnTheirWay) {
  const FakeAccelerator fake({.races = Races::kThrow});
  const at::Tensor there = torch::ones({100}, kFake0) > 0;
  const at::Tensor back = at::empty({100}, at::TensorOptions(at::kBool).pinned_memory(true));
  back.copy_(there, true);
  wait_for_event();
  EXPECT_TRUE(same_bits(back, there));
}

TEST(FakePinned, MemoryOverwrittenWhileItIsReadIsARace) {
  FakeAccelerator fake({.races = Races::kCollect});
  const at::Tensor pinned = torch::randn({1000}).pin_memory();
  const at::Tensor there = pinned.to(kFake0, true);
  pinned.fill_(7);
  EXPECT_THAT(fake.take_races(), IsEmpty()) << "nobody has looked yet";
  at::accelerator::synchronizeDevice(0);
  const auto races = fake.take_races();
  ASSERT_THAT(races, SizeIs(1));
  EXPECT_EQ(races[0].kind, FakeRace::Kind::kHostWrite);
  EXPECT_EQ(
      races[0].text(),
      "the host wrote pinned memory before aten::copy_ on stream 0 of fake:0 was done with it");
}

TEST(FakePinned, MemoryMayBeWrittenAgainAfterItsEvent) {
  FakeAccelerator fake({.races = Races::kCollect});
  const at::Tensor pinned = pinned_floats(1000);
  for (int i = 0; i < 3; ++i) {
    pinned.fill_(i);
    EXPECT_TRUE(same_bits(pinned.to(kFake0, true).cpu(), torch::full({1000}, float(i))));
    wait_for_event();
  }
  EXPECT_THAT(fake.take_races(), IsEmpty());
}

TEST(FakePinned, TwoStreamsAtTheSamePinnedMemoryAreARace) {
  FakeAccelerator fake({.races = Races::kCollect});
  const at::Tensor pinned = pinned_floats(1000), there = torch::ones({1000}, kFake0);
  const c10::Stream side = fake_guard().getStreamFromGlobalPool(kFake0);
  pinned.copy_(there, true);
  pinned.to(kFake0, true);
  EXPECT_THAT(fake.take_races(), IsEmpty()) << "one stream keeps its order";
  const at::Tensor other = torch::ones({1000}, kFake0);
  pinned.copy_(other, true);
  {
    const c10::StreamGuard guard(side);
    pinned.to(kFake0, true);
  }
  const auto races = fake.take_races();
  ASSERT_THAT(races, SizeIs(1));
  EXPECT_EQ(
      races[0].text(),
      "aten::copy_ on stream " + std::to_string(side.id()) +
          " of fake:0 reads memory that aten::copy_ on stream 0 of fake:0 writes, and nothing "
          "waits for that");
}

TEST(FakePinned, CopiesAreThereWhenTheAcceleratorEnds) {
  at::Tensor back;
  {
    const FakeAccelerator fake;
    back = pinned_floats(10);
    back.copy_(torch::ones({10}, kFake0), true);
  }
  EXPECT_TRUE(same_bits(back, torch::ones({10})));
}

}  // namespace
}  // namespace muster
