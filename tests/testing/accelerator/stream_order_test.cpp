// Who knows of what, and which uses of memory are a race.
#include "muster/testing/accelerator/stream_order.h"

#include <array>

#include <gtest/gtest.h>

#include "muster/testing/accelerator/memory_uses.h"

namespace muster {
namespace {

using testing::ByteSet;
using testing::MemoryUse;
using testing::MemoryUses;
using testing::Moment;
using testing::StreamOrder;

const std::string kSomeOp = "aten::op";

struct Streams {
  StreamOrder order;
  size_t a = order.number_of({0, 0});
  size_t b = order.number_of({0, 1});
  size_t c = order.number_of({1, 0});

  MemoryUse use(size_t stream, uintptr_t first, int64_t bytes, bool write) {
    const std::array<int64_t, 1> sizes{bytes}, strides{1};
    return {ByteSet(first, 1, sizes, strides), write, order.queue(stream), &kSomeOp};
  }
};

TEST(StreamOrder, AStreamIsKnownByDeviceAndId) {
  Streams s;
  EXPECT_EQ(s.order.number_of({0, 1}), s.b);
  EXPECT_EQ(s.order.name_of(s.c).device, 1);
  EXPECT_EQ(s.order.streams(), 3);
}

TEST(StreamOrder, WhatAStreamWaitsForItKnowsAndNoMore) {
  Streams s;
  const Moment first = s.order.queue(s.a);
  const auto event = s.order.mark(s.a);
  const Moment second = s.order.queue(s.a);
  s.order.stream_waits(s.b, event);
  EXPECT_TRUE(s.order.stream_knows(s.b, first));
  EXPECT_FALSE(s.order.stream_knows(s.b, second));
  s.order.stream_waits(s.c, s.order.mark(s.b));
  EXPECT_TRUE(s.order.stream_knows(s.c, first)) << "through the other one";
}

TEST(StreamOrder, WhatTheHostWaitsForAllStreamsKnow) {
  Streams s;
  const Moment first = s.order.queue(s.a);
  s.order.host_waits(s.order.mark(s.a));
  EXPECT_TRUE(s.order.stream_knows(s.b, first));
  EXPECT_TRUE(s.order.host_knows(first));
}

TEST(MemoryUses, TwoReadsAreNoRaceAndAReadBesideAWriteIsOne) {
  Streams s;
  MemoryUses uses;
  uses.add(s.use(s.a, 0, 16, false), s.order);
  EXPECT_EQ(uses.race_of(s.use(s.b, 0, 16, false), s.order), nullptr);
  EXPECT_EQ(uses.race_of(s.use(s.b, 16, 16, true), s.order), nullptr) << "other bytes";
  EXPECT_EQ(uses.race_of(s.use(s.a, 0, 16, true), s.order), nullptr) << "the same stream";
  const MemoryUse* const race = uses.race_of(s.use(s.b, 15, 16, true), s.order);
  ASSERT_NE(race, nullptr);
  EXPECT_EQ(race->moment.stream, s.a);
}

TEST(MemoryUses, ForgetsWhatALaterUseStandsFor) {
  Streams s;
  MemoryUses uses;
  for (int i = 0; i < 10; ++i) uses.add(s.use(s.a, 0, 16, false), s.order);
  EXPECT_EQ(uses.all().size(), 1);
  uses.add(s.use(s.a, 0, 8, false), s.order);
  EXPECT_EQ(uses.all().size(), 2);
  uses.add(s.use(s.a, 0, 16, true), s.order);
  EXPECT_EQ(uses.all().size(), 1);
  uses.add(s.use(s.b, 0, 16, true), s.order);
  EXPECT_EQ(uses.all().size(), 2) << "it did not wait, so both may be the one that a third meets";
}

TEST(MemoryUses, ForgetsWhatTheHostHasWaitedFor) {
  Streams s;
  MemoryUses uses;
  for (uintptr_t i = 0; i < 10; ++i) uses.add(s.use(s.a, i, 1, true), s.order);
  s.order.host_waits(s.order.mark(s.a));
  uses.add(s.use(s.b, 100, 1, true), s.order);
  EXPECT_EQ(uses.all().size(), 1);
}

TEST(MemoryUses, DoesNotGrowForEver) {
  Streams s;
  MemoryUses uses;
  for (uintptr_t i = 0; i < 5000; ++i) uses.add(s.use(s.a, i, 1, true), s.order);
  EXPECT_EQ(uses.all().size(), 1024);
}

}  // namespace
}  // namespace muster
