// Streams, events, and waits that are missing.
#include <ATen/DeviceAccelerator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/error_of.h"
#include "tests/testing/accelerator/fake.h"

namespace muster {
namespace {

using test::error_of;
using test::fake_guard;
using test::kFake0;
using test::kFake1;
using test::kNoError;
using test::refusal_of;
using ::testing::ElementsAre;
using testing::FakeAccelerator;
using testing::FakeRace;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Property;
using testing::Races;
using ::testing::SizeIs;

/// A device that collects races, and a second stream.
struct TwoStreams {
  explicit TwoStreams(Races races = Races::kCollect) : fake({.devices = 2, .races = races}) {}

  FakeAccelerator fake;
  c10::Stream main = fake_guard().getStream(kFake0);
  c10::Stream side = fake_guard().getStreamFromGlobalPool(kFake0);

  void side_waits() const {
    c10::Event event(c10::kPrivateUse1);
    event.record(main);
    event.block(side);
  }
  std::string on_side() const { return "stream " + std::to_string(side.id()) + " of fake:0"; }
};

TEST(FakeStreams, AMissingWaitIsNamedWithBothOperatorsAndStreams) {
  TwoStreams s;
  const at::Tensor x = torch::ones({1000}, kFake0);
  {
    const c10::StreamGuard guard(s.side);
    x * 2;
  }
  const auto races = s.fake.take_races();
  ASSERT_THAT(races, SizeIs(1));
  EXPECT_EQ(races[0].kind, FakeRace::Kind::kUnordered);
  EXPECT_EQ(races[0].text(),
            "aten::mul on " + s.on_side() +
                " reads memory that aten::fill_ on stream 0 of fake:0 writes, and nothing waits "
                "for that");
}

TEST(FakeStreams, ByDefaultTheSecondOperatorThrowsAndDoesNotRun) {
  TwoStreams s(Races::kThrow);
  at::Tensor x = torch::ones({4}, kFake0);
  const auto doubles = [&] {
    const c10::StreamGuard guard(s.side);
    x.mul_(2);
  };
  EXPECT_EQ(
      refusal_of(doubles),
      "fake devices: streams that use the same memory wait for each other (got aten::mul on " +
          s.on_side() +
          " writes memory that aten::fill_ on stream 0 of fake:0 writes, and nothing waits for "
          "that)\nhint: record an event behind aten::fill_ and let " +
          s.on_side() + " wait for it");
  EXPECT_TRUE(test::same_bits(x, torch::ones({4})));
}

TEST(FakeStreams, AnEventAStreamOrTheDeviceIsWaitedFor) {
  TwoStreams s;
  at::Tensor x = torch::ones({1000}, kFake0), y;
  s.side_waits();
  {
    const c10::StreamGuard guard(s.side);
    y = x * 2;
  }
  s.side.synchronize();
  y.add_(1);
  {
    const c10::StreamGuard guard(s.side);
    at::accelerator::synchronizeDevice(0);
    y.add_(1);
  }
  EXPECT_THAT(s.fake.take_races(), IsEmpty());
  y.add_(1);
  EXPECT_THAT(s.fake.take_races(), SizeIs(1)) << "the last one was not waited for";
}

TEST(FakeStreams, WhatTheHostReadsItHasWaitedFor) {
  TwoStreams s;
  at::Tensor x = torch::ones({1000}, kFake0);
  x.sum().item<float>();
  {
    const c10::StreamGuard guard(s.side);
    x.mul_(2);
    x.cpu();
  }
  x.mul_(2);
  x.index({x > 0});
  {
    const c10::StreamGuard guard(s.side);
    x.mul_(2);
    x.nonzero();
  }
  x.mul_(2);
  EXPECT_THAT(s.fake.take_races(), IsEmpty());
}

TEST(FakeStreams, OtherColumnsOfTheSameMatrixAreNoRace) {
  TwoStreams s;
  at::Tensor x = torch::ones({8, 8}, kFake0);
  s.side_waits();
  x.narrow(1, 0, 4).mul_(2);
  {
    const c10::StreamGuard guard(s.side);
    x.narrow(1, 4, 4).mul_(3);
    EXPECT_THAT(s.fake.take_races(), IsEmpty());
    x.narrow(1, 3, 2).mul_(3);
    EXPECT_THAT(s.fake.take_races(), SizeIs(1));
  }
}

TEST(FakeStreams, ViewsAndMetadataTouchNoMemory) {
  TwoStreams s;
  at::Tensor x = torch::ones({8, 8}, kFake0);
  const c10::StreamGuard guard(s.side);
  x.view(-1).narrow(0, 1, 2).t_();
  x.transpose_(0, 1).unsqueeze_(0).squeeze_(0);
  EXPECT_THAT(s.fake.take_races(), IsEmpty());
}

TEST(FakeStreams, MemoryThatIsFreedUnderAStreamsFeetIsARace) {
  TwoStreams s;
  const auto used_and_freed = [&](bool recorded) {
    at::Tensor x = torch::ones({1000}, kFake0);
    s.side_waits();
    const c10::StreamGuard guard(s.side);
    x.mul_(2);
    if (recorded) x.record_stream(s.side);
  };
  used_and_freed(true);
  torch::empty({1000}, kFake0);
  EXPECT_THAT(s.fake.take_races(), IsEmpty());
  used_and_freed(false);
  torch::empty({10}, kFake0);
  const auto races = s.fake.take_races();
  ASSERT_THAT(races, SizeIs(1));
  EXPECT_EQ(races[0].kind, FakeRace::Kind::kFreed);
  EXPECT_EQ(
      races[0].text(),
      "aten::mul on " + s.on_side() +
          " may still use memory that was freed, and stream 0 of fake:0 allocates: it could be "
          "handed out again");
  used_and_freed(false);
  s.side.synchronize();
  torch::empty({10}, kFake0);
  EXPECT_THAT(s.fake.take_races(), IsEmpty());
}

TEST(FakeStreams, QueriesMayBeSlowAndEventsTellTheTimeBetweenThem) {
  TwoStreams s;
  c10::Event a(c10::kPrivateUse1, c10::EventFlag::BACKEND_DEFAULT);
  c10::Event b(c10::kPrivateUse1, c10::EventFlag::BACKEND_DEFAULT);
  a.record(s.main);
  s.fake.set_slow_queries(2);
  b.record(s.main);
  EXPECT_FALSE(s.main.query());
  EXPECT_FALSE(s.main.query());
  EXPECT_TRUE(s.main.query());
  EXPECT_TRUE(a.query());
  EXPECT_FALSE(b.query());
  EXPECT_FALSE(b.query());
  EXPECT_TRUE(b.query());
  EXPECT_GE(a.elapsedTime(b), 0);
}

TEST(FakeStreams, AutogradsOwnWaitsLeaveNoRace) {
  TwoStreams s(Races::kThrow);
  torch::nn::Linear net(16, 16);
  net->to(kFake0);
  const at::Tensor input = torch::ones({4, 16}, kFake0);
  s.side_waits();
  {
    const c10::StreamGuard guard(s.side);
    net->forward(input).sum().backward();
  }
  EXPECT_NE(error_of([&] { net->weight.grad().add_(1); }), kNoError)
      << "backward() was called on the other stream";
  s.side.synchronize();
  EXPECT_EQ(error_of([&] { net->weight.grad().add_(1); }), kNoError);
}

TEST(FakeStreams, BatchNormInTrainingWritesItsStatisticsAndInEvaluationReadsThem) {
  TwoStreams s;
  torch::nn::BatchNorm1d norm(4);
  norm->to(kFake0);
  const at::Tensor x = torch::ones({8, 4}, kFake0);
  at::accelerator::synchronizeDevice(0);
  const auto on_both = [&] {
    norm->forward(x);
    const c10::StreamGuard guard(s.side);
    norm->forward(x);
    const auto races = s.fake.take_races();
    return std::count_if(races.begin(), races.end(), [](const FakeRace& race) {
      return race.second.op == "aten::native_batch_norm";
    });
  };
  norm->eval();
  EXPECT_EQ(on_both(), 0);
  at::accelerator::synchronizeDevice(0);
  norm->train();
  EXPECT_GT(on_both(), 0);
}

TEST(FakeStreams, ACopyBetweenDevicesOrdersBothCurrentStreams) {
  TwoStreams s;
  at::Tensor x = torch::ones({1000}, kFake0);
  at::Tensor y = x.to(kFake1);
  y.mul_(2);
  x.mul_(2);
  EXPECT_THAT(s.fake.take_races(), IsEmpty());
  {
    const c10::StreamGuard guard(s.side);
    y = x.to(kFake1);
  }
  EXPECT_THAT(s.fake.take_races(), ElementsAre(Field(&FakeRace::kind, FakeRace::Kind::kUnordered)));
}

TEST(FakeStreams, AnEventOfAnOlderAcceleratorIsDone) {
  c10::Event event(c10::kPrivateUse1);
  {
    TwoStreams s;
    torch::ones({10}, kFake0);
    event.record(s.main);
  }
  const TwoStreams s;
  event.block(s.side);
  event.synchronize();
  EXPECT_TRUE(event.query());
}

TEST(FakeStreams, RacesMayBeIgnored) {
  TwoStreams s(Races::kIgnore);
  at::Tensor x = torch::ones({1000}, kFake0);
  {
    const c10::StreamGuard guard(s.side);
    x.mul_(2);
  }
  EXPECT_THAT(s.fake.take_races(), IsEmpty());
}

}  // namespace
}  // namespace muster
