#include "muster/diagnose/record/flight_recorder.h"

#include <chrono>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/diagnose/record/diagnosis.h"

namespace muster::diagnose {
namespace {

OpRecord op(OpKind kind, int64_t elements, const char* dtype = "float32", int root = -1) {
  OpRecord record{.kind = kind, .root = root};
  TensorMeta meta{.dtype = dtype, .dims = 1, .elements = elements};
  meta.sizes[0] = elements;
  add_tensor(record, meta, 4);
  return record;
}

TEST(OpRecord, ReadsAsPeopleWriteIt) {
  EXPECT_EQ(describe(op(OpKind::kAllreduce, 1000)), "all_reduce sum float32[1000]");
  EXPECT_EQ(describe(op(OpKind::kBroadcast, 4, "int64", 2)), "broadcast root 2 int64[4]");
  OpRecord send = op(OpKind::kSend, 6, "float32", 1);
  send.tag = 7;
  EXPECT_EQ(describe(send), "send to 1 tag 7 float32[6]");
  EXPECT_EQ(describe({.kind = OpKind::kBarrier}), "barrier");
  OpRecord many{.kind = OpKind::kAllreduceCoalesced, .reduce = 4};
  for (int64_t i = 0; i < 5; ++i)
    add_tensor(many, {.dtype = "int32", .dims = 7, .elements = 2, .sizes = {1, 1, 1, 1, 2}}, 4);
  EXPECT_THAT(describe(many),
              ::testing::StartsWith("all_reduce_coalesced max int32[1, 1, 1, 1, 2, …]"));
  EXPECT_THAT(describe(many), ::testing::EndsWith("and 2 more tensors"));
  EXPECT_EQ(many.bytes, 40);
}

TEST(OpRecord, FingerprintsDifferWhereRanksMustAgreeAndOnlyThere) {
  const OpRecord first = op(OpKind::kAllreduce, 12);
  OpRecord shaped = first;
  shaped.tensors[0].dims = 2;
  EXPECT_EQ(fingerprint(first), fingerprint(shaped));  // [12] fits [3, 4]
  EXPECT_NE(fingerprint(first), fingerprint(op(OpKind::kAllreduce, 13)));
  EXPECT_NE(fingerprint(first), fingerprint(op(OpKind::kAllreduce, 12, "float64")));
  EXPECT_NE(fingerprint(first), fingerprint(op(OpKind::kBroadcast, 12, "float32", 0)));
  EXPECT_NE(fingerprint(op(OpKind::kBroadcast, 12, "float32", 0)),
            fingerprint(op(OpKind::kBroadcast, 12, "float32", 1)));
  OpRecord max = first;
  max.reduce = 4;
  EXPECT_NE(fingerprint(first), fingerprint(max));
}

TEST(FlightRecorder, NumbersCollectivesApartFromMessages) {
  FlightRecorder recorder(16);
  EXPECT_EQ(recorder.post(op(OpKind::kAllreduce, 1)).sequence, 0U);
  EXPECT_EQ(recorder.post(op(OpKind::kSend, 1)).id, 1U);
  EXPECT_EQ(recorder.post(op(OpKind::kAllreduce, 1)).sequence, 1U);
  EXPECT_EQ(recorder.standing().posted, 2U);
  EXPECT_EQ(recorder.standing().completed, 0U);
  recorder.complete(0);
  EXPECT_EQ(recorder.standing().completed, 1U);
  recorder.complete(2);
  EXPECT_EQ(recorder.standing().completed, 2U);
}

TEST(FlightRecorder, KeepsTheNewestInABoundedRing) {
  FlightRecorder recorder(16);
  for (int i = 0; i < 100; ++i) recorder.complete(recorder.post(op(OpKind::kAllreduce, i)).id);
  const auto kept = recorder.since(0);
  ASSERT_EQ(kept.size(), 16U);
  EXPECT_EQ(kept.front().id, 84U);
  EXPECT_EQ(kept.back().sequence, 99U);
  EXPECT_EQ(recorder.last_collectives(2).front().sequence, 98U);
  recorder.complete(3);  // forgotten long ago
  EXPECT_EQ(recorder.standing().completed, 100U);
}

TEST(FlightRecorder, KnowsWhatIsWaitedFor) {
  FlightRecorder recorder;
  recorder.post(op(OpKind::kAllreduce, 1));
  recorder.post(op(OpKind::kAllreduce, 2));
  EXPECT_FALSE(recorder.standing().waiting);
  recorder.begin_wait(1);
  EXPECT_EQ(recorder.standing().waits_for.id, 1U);
  recorder.begin_wait(0);
  EXPECT_EQ(recorder.standing().waits_for.id, 0U);
  recorder.end_wait(0);
  recorder.end_wait(1);
  EXPECT_FALSE(recorder.standing().waiting);
}

TEST(FlightRecorder, ACallThatTheBackendRefusedLeavesNoTrace) {
  FlightRecorder straight, bumpy;
  for (int i = 0; i < 37; ++i) {
    straight.post(op(OpKind::kAllreduce, i));
    bumpy.take_back(bumpy.post(op(OpKind::kBarrier, 99)).id);
    bumpy.post(op(OpKind::kAllreduce, i));
  }
  EXPECT_EQ(straight.marks(), bumpy.marks());
  EXPECT_EQ(bumpy.standing().posted, 37U);
  EXPECT_EQ(bumpy.since(0).size(), 37U);
}

/// Two ranks see each other's marks of different moments: up to 64 operations apart, some time
/// after they differed in one.
TEST(ChainOfOperations, ShowsADifferenceToRanksThatAreNotAtTheSamePlace) {
  std::mt19937_64 random(7);
  int found = 0, after_long = 0;
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t odd = random() % 3000, skew = random() % 64;
    for (const uint64_t behind : {uint64_t{200}, uint64_t{3000}}) {
      const uint64_t far = odd + behind + random() % behind;
      FlightRecorder a(16), b(16), c(16);
      for (uint64_t i = 0; i < far; ++i) a.post(op(OpKind::kAllreduce, 5));
      for (uint64_t i = 0; i < far + skew; ++i) b.post(op(OpKind::kAllreduce, i == odd ? 6 : 5));
      (behind == 200 ? found : after_long) += disagree({.marks = a.marks()}, {.marks = b.marks()});
      for (uint64_t i = 0; i < far + skew; ++i) c.post(op(OpKind::kAllreduce, 5));
      EXPECT_FALSE(disagree({.marks = a.marks()}, {.marks = c.marks()}));
    }
  }
  // Missed only while a multiple of the powers of two around lies between the two: they go on.
  EXPECT_GT(found, kRounds * 8 / 10);
  EXPECT_GT(after_long, kRounds * 95 / 100);
}

TEST(ChainOfOperations, RanksThatWaitAtTheSamePlaceAlwaysSeeIt) {
  for (uint64_t length : {1, 2, 3, 41, 1024, 1025}) {
    FlightRecorder a, b;
    for (uint64_t i = 0; i < length; ++i) {
      a.post(op(OpKind::kAllreduce, 5));
      b.post(op(OpKind::kAllreduce, i + 1 == length ? 6 : 5));
    }
    EXPECT_TRUE(disagree({.marks = a.marks()}, {.marks = b.marks()})) << length;
  }
}

}  // namespace
}  // namespace muster::diagnose
