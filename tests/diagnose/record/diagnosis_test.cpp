// The words for each way to fail, from what the ranks told each other.
#include "muster/diagnose/record/diagnosis.h"

#include <deque>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::diagnose {
namespace {

using Kind = Diagnosis::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

OpRecord allreduce(int64_t elements) {
  OpRecord record{.kind = OpKind::kAllreduce};
  TensorMeta meta{.dtype = "float32", .dims = 1, .elements = elements};
  meta.sizes[0] = elements;
  add_tensor(record, meta, 4);
  return record;
}

OpRecord receive_from(int root) {
  OpRecord record = allreduce(2);
  record.kind = OpKind::kRecv;
  record.root = root;
  return record;
}

/// Ranks that have called the same 40 operations, #0 to #39, and do #40 now.
class Group {
 public:
  explicit Group(int ranks) : views_(static_cast<size_t>(ranks)), recorders_(views_.size()) {
    for (int i = 0; i < 40; ++i) {
      for (FlightRecorder& recorder : recorders_)
        recorder.complete(recorder.post(allreduce(i + 1)).id);
    }
  }

  void call(int rank, const OpRecord& op, bool waits = true) {
    FlightRecorder& recorder = recorders_[static_cast<size_t>(rank)];
    const OpRecord posted = recorder.post(op);
    if (waits) recorder.begin_wait(posted.id);
    if (rank == 0) stuck_ = posted;
  }
  void complete(int rank, const OpRecord& op, bool failed = false) {
    FlightRecorder& recorder = recorders_[static_cast<size_t>(rank)];
    recorder.complete(recorder.post(op).id, failed);
  }
  void fail(int rank, const OpRecord& op) { complete(rank, op, true); }
  void works_at(int rank, const std::string& what) {
    recorders_[static_cast<size_t>(rank)].set_activity([what] { return what; });
  }
  PeerView& view(int rank) { return views_[static_cast<size_t>(rank)]; }

  Diagnosis diagnose(StoreView store = {}) {
    for (size_t rank = 0; rank < views_.size(); ++rank) {
      const bool ended = views_[rank].state && views_[rank].state->ended;
      const bool threw = ended && views_[rank].state->threw;
      PeerState state = peer_state_of(recorders_[rank], 16);
      if (threw) state.why = views_[rank].state->why;
      state.rank = static_cast<int64_t>(rank);
      state.beat = 7;
      state.process = {.pid = 100 + static_cast<int64_t>(rank), .hostname = "node7"};
      state.main_thread = "running";
      state.step = 12;
      state.ended = ended, state.threw = threw;
      state.since_s = 4.9;
      views_[rank].state = parse_peer_state(peer_state_text(state), "state");
      if (views_[rank].life == Life::kUnknown && views_[rank].age_s == 0)
        views_[rank].life = Life::kRuns;
      views_[rank].silent_s = views_[rank].age_s;
      views_[rank].is_fresh = true;
    }
    return diagnose::diagnose({.op = stuck_, .waited_s = 5, .rank = 0}, views_, store, 2.5);
  }

 private:
  OpRecord stuck_;
  std::vector<PeerView> views_;
  std::deque<FlightRecorder> recorders_{};
};

TEST(Diagnosis, NamesTheRankThatCalledSomethingElse) {
  Group group(4);
  for (const int rank : {0, 1, 3}) group.call(rank, allreduce(1000));
  OpRecord broadcast = allreduce(4);
  broadcast.kind = OpKind::kBroadcast;
  broadcast.root = 0;
  group.call(2, broadcast);
  const Diagnosis found = group.diagnose();
  EXPECT_EQ(found.kind, Kind::kMismatch);
  EXPECT_TRUE(found.certain);
  EXPECT_THAT(found.culprits, ElementsAre(2));
  EXPECT_EQ(found.who,
            "rank 2 is at broadcast root 0 float32[4] #40 while ranks 0, 1 and 3 are at all_reduce "
            "sum float32[1000] #40");
  EXPECT_EQ(found.common,
            "the last operation that all ranks called alike is #39 all_reduce sum float32[40]");
}

TEST(Diagnosis, TellsSkippedFromReorderedFromOneMore) {
  const auto with = [](std::vector<int64_t> most, std::vector<int64_t> odd) {
    Group group(3);
    for (const int64_t size : most) group.call(0, allreduce(size)), group.call(1, allreduce(size));
    for (const int64_t size : odd) group.call(2, allreduce(size));
    return group.diagnose().who;
  };
  EXPECT_THAT(with({7, 8, 9}, {8, 9}), HasSubstr("; rank 2 skipped the all_reduce"));
  EXPECT_THAT(with({7, 8}, {8, 7}), HasSubstr("; rank 2 called the two in another order"));
  EXPECT_THAT(with({7, 8}, {5, 7}), HasSubstr("; rank 2 called one operation more"));
  EXPECT_THAT(with({7}, {6}), HasSubstr("; the operation is the same, its arguments differ"));
}

TEST(Diagnosis, OfTwoRanksThatDifferNeitherIsToBlame) {
  Group group(2);
  group.call(0, allreduce(3));
  group.call(1, allreduce(4));
  const Diagnosis found = group.diagnose();
  EXPECT_TRUE(found.culprits.empty());
  EXPECT_THAT(found.who, HasSubstr("at all_reduce sum float32[3] #40 while rank 1 is at"));
}

TEST(Diagnosis, TellsDeadStoppedSilentAndBusyRanksApart) {
  const auto with = [](Life life, double age_s, bool ended = false, bool threw = false) {
    Group group(3);
    group.call(0, allreduce(9));
    group.call(1, allreduce(9));
    group.view(2).life = life;
    group.view(2).age_s = age_s;
    if (ended) group.view(2).state = PeerState{.ended = true, .threw = threw};
    return group.diagnose();
  };
  EXPECT_EQ(
      with(Life::kGone, 1).who,
      "rank 2 is gone: process 102 on node7 has ended; its last heartbeat showed all_reduce sum "
      "float32[40] #39, in step 12");
  EXPECT_THAT(with(Life::kStopped, 9).who, HasSubstr("rank 2 is stopped (SIGSTOP or a debugger)"));
  EXPECT_THAT(with(Life::kUnknown, 9).who,
              HasSubstr("rank 2 gives no sign of life for 9.0 s (process 102 on node7): it is "
                        "stopped, or its host or network is gone"));
  EXPECT_THAT(with(Life::kRuns, 0.1, true).who, HasSubstr("rank 2 has ended: it closed the group"));
  EXPECT_THAT(with(Life::kRuns, 0.1, true, /*threw=*/true).who,
              HasSubstr("rank 2 failed: an exception ended its part in the group"));
  Group told(2);
  told.call(0, allreduce(9));
  told.view(1).state = PeerState{.ended = true, .threw = true, .why = "no such file"};
  EXPECT_THAT(told.diagnose().who, HasSubstr("rank 1 failed: no such file"));
  const Diagnosis busy = with(Life::kRuns, 0.1);
  EXPECT_EQ(busy.who,
            "rank 2 did not come: it is alive and running outside of any operation for 5.0 s; its "
            "last call was all_reduce sum float32[40] #39, in step 12");
  EXPECT_FALSE(busy.certain);
  EXPECT_THAT(busy.culprits, ElementsAre(2));
  EXPECT_THAT(with(Life::kUnknown, 1).who, HasSubstr("did not come"));  // not silent for long
}

TEST(Diagnosis, WhatIsDoneOnOneRankAllHaveCalledWhateverTheirLastHeartbeatSaid) {
  Group group(2);
  OpRecord broadcast = allreduce(4);
  broadcast.kind = OpKind::kBroadcast;
  broadcast.root = 0;
  group.complete(0, allreduce(9));  // rank 1 took part, and died before it could tell
  group.complete(0, broadcast);     // proves nothing: the root need not wait
  group.call(0, allreduce(8));
  group.view(1).life = Life::kGone;
  EXPECT_EQ(group.diagnose().who, "rank 1 is gone: process 101 on node7 has ended");
  EXPECT_THAT(group.diagnose().common,
              HasSubstr("are known to have called alike is #40 all_reduce sum float32[9]"));
}

TEST(Diagnosis, ADifferenceThatTheGroupSurvivedIsPast) {
  Group group(3);
  for (const int rank : {0, 1, 2}) group.fail(rank, allreduce(rank == 1 ? 7 : 8));  // #40
  for (const int rank : {0, 1, 2}) group.complete(rank, allreduce(5));
  for (const int rank : {0, 1, 2}) group.call(rank, allreduce(rank == 2 ? 30 : 20));  // #42
  EXPECT_EQ(group.diagnose().who,
            "rank 2 is at all_reduce sum float32[30] #42 while ranks 0 and 1 are at all_reduce sum "
            "float32[20] #42; the operation is the same, its arguments differ");
  EXPECT_EQ(group.diagnose().common,
            "the last operation that all ranks called alike is #41 all_reduce sum float32[5]");
}

TEST(Diagnosis, AfterADifferenceThatTheGroupSurvivedItSeesWhoDoesNotCome) {
  Group group(2);
  for (const int rank : {0, 1}) group.fail(rank, allreduce(rank == 1 ? 7 : 8));
  for (int i = 0; i < 600; ++i) {  // no window reaches back, but the chains differ
    for (const int rank : {0, 1}) group.complete(rank, allreduce(5));
  }
  group.call(0, allreduce(20));
  group.view(1).life = Life::kGone;
  const Diagnosis found = group.diagnose();
  EXPECT_EQ(found.kind, Kind::kGone);
  EXPECT_EQ(found.common,
            "the last operation that all ranks called alike is #640 all_reduce sum float32[5]");
}

// Its last heartbeat tells of 40 calls; it may have made more before it went.
TEST(Diagnosis, AStaleHeartbeatIsNoFactAboutTheLastCommonOperation) {
  FlightRecorder ahead, behind;
  for (FlightRecorder* recorder : {&ahead, &behind}) {
    for (int i = 0; i < 40; ++i) recorder->post(allreduce(i + 1));
  }
  const OpRecord stuck = ahead.post(allreduce(41));
  std::vector<PeerView> views{{.state = peer_state_of(ahead, 16), .is_fresh = true},
                              {.state = peer_state_of(behind, 16), .life = Life::kGone}};
  const auto common = [&] {
    return diagnose::diagnose({.op = stuck, .waited_s = 5, .rank = 0}, views, {}, 2.5).common;
  };
  EXPECT_EQ(common(),
            "the last operation that all ranks are known to have called alike is #39 all_reduce "
            "sum float32[40]");
  views[1].is_fresh = true;  // its last word was read
  EXPECT_EQ(common(),
            "the last operation that all ranks called alike is #39 all_reduce sum float32[40]");
}

TEST(Diagnosis, ARankThatEndedAfterItsPartIsNotToBlame) {
  Group group(3);
  OpRecord gather = allreduce(4);
  gather.kind = OpKind::kGather;
  gather.root = 0;
  group.call(0, gather);
  group.complete(1, gather);  // its part is sent; its program is over
  group.view(1).life = Life::kGone;
  group.view(1).state = PeerState{.ended = true};
  const Diagnosis found = group.diagnose();  // rank 2 is slow
  EXPECT_EQ(found.kind, Kind::kMissing);
  EXPECT_THAT(found.culprits, ElementsAre(2));
}

TEST(Diagnosis, ARankThatWaitsElsewhereIsShownThere) {
  Group group(3);
  group.call(0, allreduce(9));
  group.call(1, receive_from(0));
  EXPECT_THAT(group.diagnose().who,
              HasSubstr("rank 1 did not come: it waits in recv from 0 tag 0 float32[2] for 4.9 s"));
  group.view(2).life = Life::kStopped;
  EXPECT_THAT(group.diagnose().who, HasSubstr("; rank 1 waits in recv from 0 tag 0 float32[2]"));
}

TEST(Diagnosis, OfRanksThatDidNotComeThoseAreNamedThatSayWhatTheyWorkAt) {
  Group group(4);
  group.call(0, allreduce(9));  // ranks 1 and 3 wait for rank 2, in other groups
  group.works_at(2, "forward of stage 2, micro-batch 1 (2F1)");
  const Diagnosis found = group.diagnose();
  EXPECT_THAT(found.culprits, ElementsAre(2));
  EXPECT_THAT(found.who,
              HasSubstr("of any operation for 4.9 s, in forward of stage 2, micro-batch 1 (2F1);"));
}

TEST(Diagnosis, OfAMessageOnlyThePeerCounts) {
  Group group(3);
  group.call(0, receive_from(1));
  group.view(2).life = Life::kGone;
  EXPECT_THAT(group.diagnose().culprits, ElementsAre(1));
  group.view(1).life = Life::kGone;
  EXPECT_THAT(group.diagnose().who, HasSubstr("rank 1 is gone"));
}

TEST(Diagnosis, WithoutTheStoreItsServerIsNamed) {
  Group group(3);
  group.call(0, allreduce(9));
  const StoreView lost{.lost = true, .server_rank = 2};
  group.view(2).life = Life::kGone;
  EXPECT_EQ(group.diagnose(lost).who,
            "rank 2, which serves the store, is gone (process 102 on node7)");
  group.view(2).life = Life::kStopped;
  EXPECT_THAT(group.diagnose({.silent_s = 9, .server_rank = 2}).who,
              HasSubstr("rank 2, which serves the store, is stopped"));
  group.view(2).life = Life::kRuns;
  EXPECT_THAT(group.diagnose(lost).who, HasSubstr("rank 2, which serves the store, has closed it"));
  EXPECT_THAT(group.diagnose({.lost = true}).who, HasSubstr("the store of the group is gone"));
}

TEST(Diagnosis, AServerThatSaidWhyItFailedIsNotNamedForWhatBecameOfItSince) {
  Group group(3);
  group.call(0, allreduce(9));
  group.call(1, allreduce(9));
  group.view(2).state = PeerState{.ended = true, .threw = true, .why = "no such file"};
  for (const Life life : {Life::kStopped, Life::kGone, Life::kRuns}) {
    group.view(2).life = life;
    const Diagnosis found = group.diagnose({.lost = true, .silent_s = 9, .server_rank = 2});
    EXPECT_THAT(found.who, StartsWith("rank 2 failed: no such file"));
    EXPECT_EQ(found.kind, Kind::kEnded);
    EXPECT_THAT(found.culprits, ElementsAre(2));
  }
}

TEST(Diagnosis, TheEndOfTheStoreIsNoEndForThoseWhoDoNotNeedItsServer) {
  Group group(3);
  group.call(0, receive_from(1));
  group.view(2).life = Life::kGone;  // it has returned
  const StoreView lost{.lost = true, .server_rank = 2};
  EXPECT_THAT(group.diagnose(lost).culprits, ElementsAre(1));
  EXPECT_EQ(group.diagnose(lost).kind, Kind::kMissing);
  group.view(1).life = Life::kGone;
  EXPECT_EQ(group.diagnose(lost).kind, Kind::kGone);
  EXPECT_THAT(group.diagnose(lost).culprits, ElementsAre(1));
}

TEST(Diagnosis, TheEndOfAStoreThatNoRankOfTheGroupServesProvesNothing) {
  Group group(2);
  group.call(0, allreduce(9));
  const StoreView lost{.lost = true, .server_outside = true};
  EXPECT_EQ(group.diagnose(lost).kind, Kind::kMissing);
  group.view(1).life = Life::kGone;
  EXPECT_EQ(group.diagnose(lost).kind, Kind::kGone);
  EXPECT_THAT(group.diagnose(lost).culprits, ElementsAre(1));
}

TEST(Diagnosis, ACollectiveThatTheServerHasDoneOutlivesIt) {
  Group group(3);
  OpRecord gather = allreduce(4);
  gather.kind = OpKind::kGather;
  gather.root = 0;
  group.call(0, gather);
  group.complete(2, gather);
  group.view(2).life = Life::kGone;
  group.view(2).state = PeerState{.ended = true};
  EXPECT_THAT(group.diagnose({.lost = true, .server_rank = 2}).culprits, ElementsAre(1));
}

TEST(Diagnosis, WithAllRanksThereSaysSo) {
  Group group(2);
  group.call(0, allreduce(9));
  group.call(1, allreduce(9));
  const Diagnosis found = group.diagnose();
  EXPECT_EQ(found.kind, Kind::kAllThere);
  EXPECT_EQ(found.who, "every rank called it");
  EXPECT_TRUE(found.culprits.empty());
}

// Three ranks; rank 2 is what `odd` says.
Diagnosis with_view(PeerView odd, StoreView store = {}) {
  FlightRecorder recorder;
  const OpRecord op = recorder.post(allreduce(9));
  const PeerView there{.state = peer_state_of(recorder, 16), .life = Life::kRuns, .is_fresh = true};
  const std::vector<PeerView> views{there, there, std::move(odd)};
  return diagnose({.op = op, .waited_s = 5, .rank = 0}, views, store, 2.5);
}

TEST(Diagnosis, ARankIsNotSilentBeforeItWasListenedTo) {
  const Diagnosis unread = with_view({.age_s = 99});
  EXPECT_EQ(unread.kind, Kind::kUnknown);
  EXPECT_FALSE(unread.certain);
  EXPECT_TRUE(unread.culprits.empty());
  // An earlier alarm read it; this one has not yet.
  EXPECT_EQ(with_view({.state = PeerState{.rank = 2}, .age_s = 99}).kind, Kind::kUnknown);
  EXPECT_EQ(with_view({.state = PeerState{.rank = 2}, .age_s = 99, .is_fresh = true}).kind,
            Kind::kMissing);
  const Diagnosis silent = with_view({.age_s = 99, .silent_s = 3, .is_fresh = true});
  EXPECT_EQ(silent.who, "rank 2 has given no sign of life");
  EXPECT_TRUE(silent.certain);
}

TEST(Diagnosis, AnEndedProcessIsGoneForCertainOnlyAfterItsLastWordWasRead) {
  PeerView gone{.state = PeerState{.rank = 2}, .life = Life::kGone};
  EXPECT_EQ(with_view(gone).kind, Kind::kGone);
  EXPECT_FALSE(with_view(gone).certain);
  gone.is_fresh = true;
  EXPECT_TRUE(with_view(gone).certain);
}

TEST(Diagnosis, ADifferenceIsCertainOnceEveryRankIsRead) {
  PeerView other{.state = PeerState{.rank = 2, .posted = 1, .ops = {{0, 7, "barrier"}}},
                 .life = Life::kRuns};
  EXPECT_EQ(with_view(other).kind, Kind::kMismatch);
  EXPECT_FALSE(with_view(other).certain);
  EXPECT_TRUE(with_view(other, {.lost = true}).certain);  // nothing more will be read
  other.is_fresh = true;
  EXPECT_TRUE(with_view(other).certain);
}

// A thread that gets no core between its call and the refusal shows it for long.
TEST(Diagnosis, ACallThatItsBackendMayRefuseProvesNothingWhileItsRankLives) {
  PeerView other{
      .state = PeerState{.rank = 2, .posted = 1, .ops = {{0, 7, "barrier", /*stands=*/false}}},
      .life = Life::kRuns,
      .is_fresh = true};
  EXPECT_EQ(with_view(other).kind, Kind::kMismatch);
  EXPECT_TRUE(with_view(other).may_pass);
  EXPECT_FALSE(with_view(other).certain);
  other.life = Life::kGone;
  EXPECT_FALSE(with_view(other).may_pass);
  EXPECT_TRUE(with_view(other).certain);
}

TEST(Diagnosis, OneRankThatContradictsItselfIsNoDifferenceBetweenRanks) {
  const PeerView odd{.state = PeerState{.rank = 2, .ops = {{5, 7, "barrier"}, {5, 8, "barrier"}}},
                     .life = Life::kRuns,
                     .is_fresh = true};
  EXPECT_EQ(with_view(odd).kind, Kind::kMissing);
}

}  // namespace
}  // namespace muster::diagnose
