// What ranks tell each other of themselves, as text and back.
#include "muster/diagnose/record/peer_state.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/diagnose/record/diagnosis.h"
#include "muster/diagnose/record/flight_recorder.h"

#include "tests/support/error_of.h"

namespace muster::diagnose {
namespace {

using ::testing::HasSubstr;

TEST(PeerState, HoldsNoMoreThanARankWrites) {
  const auto reads = [](const PeerState& state) {
    return test::error_of(
        [&] { EXPECT_EQ(parse_peer_state(peer_state_text(state), "heartbeat"), state); });
  };
  PeerState state;
  for (uint64_t i = 0; i < 256; ++i) state.ops.push_back({i, 1, "barrier"});
  for (uint64_t i = 0; i < 64; ++i) state.marks.push_back({i + 1, 1});
  state.ops.back().stands = false;
  state.activity = "forward of stage 1";
  EXPECT_EQ(reads(state), test::kNoError);
  PeerState more = state;
  more.ops.push_back({256, 1, "barrier"});
  EXPECT_THAT(reads(more), HasSubstr("heartbeat: 257 ops, at most 256"));
  more = state;
  more.marks.push_back({65, 1});
  EXPECT_THAT(reads(more), HasSubstr("heartbeat: 65 marks, at most 64"));
  EXPECT_THAT(reads({.ops = {{3, 1, "barrier"}, {3, 2, "barrier"}}}),
              HasSubstr("operations do not rise"));
  EXPECT_THAT(reads({.marks = {{4, 1}, {2, 1}}}), HasSubstr("marks do not rise"));
  EXPECT_THAT(reads({.marks = {{0, 1}}}), HasSubstr("marks do not rise"));
}

// "being called" stands behind a call that does not stand, and nothing else does.
TEST(PeerState, SaysOfACallWhetherItStands) {
  const std::string text = peer_state_text({.posted = 1, .ops = {{0, 7, "barrier", false}}});
  EXPECT_THAT(text, HasSubstr(R"([0,7,"barrier","being called"])"));
  const auto with = [&](const std::string& fourth) {
    std::string other = text;
    return other.replace(other.find("\"being called\""), 14, fourth);
  };
  EXPECT_FALSE(parse_peer_state(text, "heartbeat").ops[0].stands);
  for (const char* fourth : {"\"called\"", "1", "null", "\"being called\",1"})
    EXPECT_THAT(test::refusal_of([&] { parse_peer_state(with(fourth), "heartbeat"); }),
                HasSubstr("an operation is not number, fingerprint, text"));
}

TEST(PeerState, IsRefusedWhenItIsNotOne) {
  for (const char* bad : {"", "[]", "{}", "{\"rank\":-1}", "{\"rank\":0,\"beat\":\"x\"}"})
    EXPECT_THAT(test::refusal_of([&] { parse_peer_state(bad, "heartbeat of rank 3"); }),
                HasSubstr("heartbeat of rank 3"))
        << bad;
}

TEST(PeerState, ShowsByItsMarksADifferenceThatItsOperationsDoNotReachBackTo) {
  std::vector<PeerView> peers(2);
  const auto call = [](FlightRecorder& recorder, OpKind kind) {
    recorder.complete(recorder.post({.kind = kind}).id);
  };
  for (const size_t rank : {0U, 1U}) {
    FlightRecorder recorder;
    call(recorder, rank == 0 ? OpKind::kBarrier : OpKind::kAllreduce);
    for (int i = 0; i < 600; ++i) call(recorder, OpKind::kBarrier);
    peers[rank] = {.state = peer_state_of(recorder, kMaxBriefs), .is_fresh = true};
  }
  const Diagnosis found = diagnose({.rank = 0}, peers, {}, 2.5);
  EXPECT_EQ(found.kind, Diagnosis::Kind::kMismatch);
  EXPECT_THAT(found.who, HasSubstr("longer ago than their flight records reach"));
  EXPECT_TRUE(found.is_unseen);
  EXPECT_FALSE(found.certain);
}

TEST(ProcessLife, SeesThisProcessAndNotOneOfAnotherTime) {
  ProcessId process = this_process();
  EXPECT_EQ(life_of(process), Life::kRuns);
  ++process.started;
  EXPECT_EQ(life_of(process), Life::kGone);
  process.host = "another";
  EXPECT_EQ(life_of(process), Life::kUnknown);
  EXPECT_EQ(main_thread_state(), "running");
}

}  // namespace
}  // namespace muster::diagnose
