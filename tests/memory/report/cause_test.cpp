// Which class a failed allocation is, from its numbers alone.
#include "muster/memory/report/cause.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/memory/report/host_bytes.h"

#include "tests/memory/report/made_up_machine.h"

namespace muster::memory {
namespace {

using test::kGib;
using test::kMib;
using ::testing::HasSubstr;

/// 24 GiB, 20 of them in tensors, 1 free, and 2 asked for.
OomFacts full_device() {
  OomFacts facts{.device = "cuda:0"};
  facts.asked = 2 * kGib;
  facts.total = facts.cap = 24 * kGib;
  facts.cap_kind = CapKind::kDevice;
  facts.free = kGib;
  facts.live = 22 * kGib;
  facts.idle = 512 * kMib;
  facts.outside = 512 * kMib;
  return facts;
}

int64_t& owner(OomFacts& facts, Owner who) {
  facts.by_owner = true;
  return facts.owners[static_cast<size_t>(who)];
}

TEST(OomCause, ARequestBeyondTheDeviceIsTooLargeWhateverElseHoldsMemory) {
  OomFacts facts = full_device();
  facts.asked = 25 * kGib;
  facts.others = 20 * kGib;
  const OomCause cause = classify(facts);
  EXPECT_EQ(cause.kind, OomClass::kTooLarge);
  EXPECT_EQ(cause.because, "one tensor of 25 GiB is more than the 24 GiB that cuda:0 has");
  facts.asked = int64_t{1} << 45;
  EXPECT_THAT(classify(facts).todo, HasSubstr("overflowed"));
}

TEST(OomCause, ARequestBeyondTheCapOfAnEmptyProcessIsTheCaps) {
  OomFacts facts = full_device();
  facts.cap = kGib;
  facts.cap_kind = CapKind::kFraction;
  facts.live = facts.idle = 0;
  EXPECT_EQ(classify(facts).kind, OomClass::kCap);
  facts.cap_kind = CapKind::kGroup;
  EXPECT_EQ(classify(facts).kind, OomClass::kHostLimit);
}

TEST(OomCause, ThereWasRoomIfABlockFitsOrAsMuchIsFree) {
  OomFacts facts = full_device();
  facts.largest_idle = 2 * kGib;
  EXPECT_EQ(classify(facts).kind, OomClass::kSpurious);
  EXPECT_EQ(classify(facts).action, OomAction::kRetry);
  facts.largest_idle = 2 * kGib - 1;
  EXPECT_NE(classify(facts).kind, OomClass::kSpurious);
  facts.free = 2 * kGib;
  EXPECT_EQ(classify(facts).kind, OomClass::kSpurious);
}

TEST(OomCause, MemoryThatWaitsForAStreamIsNoFragment) {
  OomFacts facts = full_device();
  facts.idle = 2 * kGib;
  facts.pending = kGib;
  EXPECT_EQ(classify(facts).kind, OomClass::kStream);
  facts.pending = kGib - 1;
  facts.largest_idle = 256 * kMib;
  EXPECT_EQ(classify(facts).kind, OomClass::kFragments);
}

TEST(OomCause, IdlePoolsOfGraphsAreNoFragments) {
  OomFacts facts = full_device();
  facts.idle = 2 * kGib;
  facts.in_pools = kGib;
  EXPECT_EQ(classify(facts).kind, OomClass::kPools);
  facts.in_pools = 0;
  EXPECT_EQ(classify(facts).kind, OomClass::kFragments);
}

TEST(OomCause, FragmentsSayTheirLargestPiece) {
  OomFacts facts = full_device();
  facts.idle = 3 * kGib;
  facts.largest_idle = 512 * kMib;
  const OomCause cause = classify(facts);
  EXPECT_EQ(cause.kind, OomClass::kFragments);
  EXPECT_EQ(cause.because,
            "3.0 GiB are idle in pieces, the largest of 512 MiB; 1.0 GiB were missing");
  EXPECT_THAT(cause.todo, HasSubstr("expandable_segments"));
  // 1 - 0.5 / 3
  EXPECT_NEAR(*facts.fragmentation(), 5.0 / 6, 1e-12);
  facts.idle = 0;
  EXPECT_FALSE(facts.fragmentation().has_value());
}

std::vector<IterationEnd> ends(const std::vector<int64_t>& mib) {
  std::vector<IterationEnd> all;
  for (const int64_t one : mib)
    all.push_back({.iteration = static_cast<int64_t>(all.size()) + 1, .end_bytes = one * kMib});
  return all;
}

TEST(OomCause, WhatGrowsEachIterationIsASuspectedLeak) {
  OomFacts facts = full_device();
  facts.iterations = ends({100, 3000, 3300, 3600, 3900, 4200, 4500, 4800});
  EXPECT_EQ(classify(facts).kind, OomClass::kGrowth) << "the first step takes what stays";
  EXPECT_EQ(classify(facts).action, OomAction::kFindLeak);
  facts.iterations = ends({3000, 3010, 3020, 3030, 3040, 3050, 3060, 3070});
  EXPECT_NE(classify(facts).kind, OomClass::kGrowth) << "80 MiB would not have helped";
  for (auto& end : facts.iterations) end.iteration += 1000;
  EXPECT_EQ(classify(facts).kind, OomClass::kGrowth) << "1000 times 10 MiB would have";
}

TEST(OomCause, WarmUpsAndSawteethAreNoGrowth) {
  OomFacts facts = full_device();
  for (const auto& quiet : {std::vector<int64_t>{100, 8000, 8000, 8000, 8000, 8000, 8000, 8000},
                            std::vector<int64_t>{2000, 4000, 6000, 8000, 10000, 12000, 14000, 2000},
                            std::vector<int64_t>{2000, 4000, 2000, 4000, 2000, 4000, 2000, 4000},
                            std::vector<int64_t>{2000, 4000, 6000}}) {
    facts.iterations = ends(quiet);
    EXPECT_NE(classify(facts).kind, OomClass::kGrowth) << ::testing::PrintToString(quiet);
  }
}

TEST(OomCause, ACapThatKeepsTheMissingBytesBackIsTooLow) {
  OomFacts facts = full_device();
  facts.cap_kind = CapKind::kFraction;
  facts.cap = 23 * kGib;
  facts.beyond = kGib;
  EXPECT_EQ(classify(facts).kind, OomClass::kCap);
  EXPECT_EQ(classify(facts).action, OomAction::kRaiseCap);
  facts.beyond = kGib - 1;
  EXPECT_EQ(classify(facts).kind, OomClass::kLiveTensors) << "the device would not have had it";
  facts.beyond = kGib;
  facts.cap_kind = CapKind::kGroup;
  EXPECT_EQ(classify(facts).kind, OomClass::kHostLimit);
}

TEST(OomCause, OtherProcessesAreItIfTheyHoldWhatWasMissingAndMoreThanADesktop) {
  OomFacts facts = full_device();
  facts.others = 6 * kGib;
  facts.processes = {{.pid = 4711, .command = "python train.py", .bytes = 6 * kGib}};
  const OomCause cause = classify(facts);
  EXPECT_EQ(cause.kind, OomClass::kOthers);
  EXPECT_THAT(cause.because, HasSubstr("process 4711 (python train.py) 6.0 GiB of them"));
  facts.others = 300 * kMib;
  facts.asked = kGib + 100 * kMib;
  facts.idle = 120 * kMib;  // less than a fiftieth: crumbs
  EXPECT_EQ(classify(facts).kind, OomClass::kLiveTensors);
}

TEST(OomCause, WhatIsOutsideOfTensorsIsItIfItIsMoreThanTheyAre) {
  OomFacts facts = full_device();
  facts.live = 4 * kGib;
  facts.outside = 18 * kGib;
  EXPECT_EQ(classify(facts).kind, OomClass::kOutside);
  facts.live = 19 * kGib;
  EXPECT_EQ(classify(facts).kind, OomClass::kLiveTensors);
}

TEST(OomCause, LiveTensorsSayWhatToDoByWhoseTheyAre) {
  OomFacts facts = full_device();
  facts.rest_is_mixed = true;
  owner(facts, Owner::kParameter) = 2 * kGib;
  owner(facts, Owner::kOther) = 20 * kGib;
  EXPECT_EQ(classify(facts).action, OomAction::kSmallerBatch) << "activations, most likely";
  facts.rest_is_mixed = false;
  facts.holders = {{.scope = "replay", .op = "aten::clone", .bytes = 20 * kGib, .blocks = 5}};
  const OomCause cause = classify(facts);
  EXPECT_EQ(cause.action, OomAction::kRelease);
  EXPECT_THAT(cause.todo, HasSubstr("tensors of aten::clone in scope \"replay\""));
  owner(facts, Owner::kOther) = 0;
  owner(facts, Owner::kOptimizerState) = 20 * kGib;
  EXPECT_EQ(classify(facts).action, OomAction::kShard);
  owner(facts, Owner::kOptimizerState) = 15 * kGib;
  owner(facts, Owner::kActivation) = 5 * kGib;
  EXPECT_EQ(classify(facts).action, OomAction::kSmallerBatch) << "half of 5 GiB is 1 and more";
  owner(facts, Owner::kActivation) = kGib;
  EXPECT_EQ(classify(facts).action, OomAction::kShard);
  owner(facts, Owner::kOptimizerState) = 0;
  owner(facts, Owner::kActivation) = 20 * kGib;
  EXPECT_EQ(classify(facts).action, OomAction::kSmallerBatch);
}

TEST(OomCause, WithoutNumbersNothingIsMadeUp) {
  const OomCause cause = classify({.device = "cuda:0", .words = "CUDA error: out of memory"});
  EXPECT_EQ(cause.kind, OomClass::kUnknown);
  EXPECT_EQ(cause.action, OomAction::kReadLog);
}

/// A machine of 64 GiB with 40 available; this process has 10 resident, 8 of them tensors.
HostBytes machine() {
  HostBytes host;
  host.total = 64 * kGib;
  host.available = 40 * kGib;
  host.resident = 10 * kGib;
  return host;
}

OomFacts on_host(int64_t asked, const HostBytes& host, std::optional<int64_t> capacity = {}) {
  OomFacts facts{.device = "cpu"};
  facts.asked = asked;
  facts.live = 8 * kGib;
  facts.cap = capacity;
  fill_host(facts, host);
  return facts;
}

TEST(OomCause, OnTheHostTheLimitThatLeavesLeastIsTheCap) {
  const OomFacts plain = on_host(50 * kGib, machine());
  EXPECT_EQ(plain.cap_kind, CapKind::kDevice);
  EXPECT_EQ(plain.free, 40 * kGib);
  EXPECT_EQ(plain.outside, 2 * kGib);
  EXPECT_EQ(plain.others, 14 * kGib);  // 64 - 40 - 10

  HostBytes in_group = machine();
  in_group.group_limit = 16 * kGib;
  in_group.group_used = 12 * kGib;
  const OomFacts grouped = on_host(6 * kGib, in_group);
  EXPECT_EQ(grouped.cap_kind, CapKind::kGroup);
  EXPECT_EQ(grouped.free, 4 * kGib);
  EXPECT_EQ(grouped.beyond, 36 * kGib);
  EXPECT_EQ(grouped.others, 2 * kGib);
  EXPECT_EQ(classify(grouped).kind, OomClass::kHostLimit);

  HostBytes limited = machine();
  limited.address_limit = 20 * kGib;
  limited.addresses = 18 * kGib;
  const OomFacts by_shell = on_host(3 * kGib, limited);
  EXPECT_EQ(by_shell.cap_kind, CapKind::kAddresses);
  EXPECT_THAT(classify(by_shell).todo, HasSubstr("ulimit -v"));
}

TEST(OomCause, ACapacityOfTheProgramIsTooLowOnlyIfTheMachineHasMore) {
  const OomFacts roomy = on_host(2 * kGib, machine(), 9 * kGib);
  EXPECT_EQ(roomy.free, kGib);
  EXPECT_EQ(roomy.beyond, 39 * kGib);
  EXPECT_EQ(classify(roomy).kind, OomClass::kCap);
  HostBytes full = machine();
  full.available = kGib;
  full.resident = 62 * kGib;
  OomFacts tight = on_host(2 * kGib, full, 9 * kGib);
  EXPECT_EQ(tight.beyond, 0);
  EXPECT_EQ(classify(tight).kind, OomClass::kOutside) << "54 GiB of the process are no tensors";
}

TEST(OomCause, EveryClassActionAndCapHasItsOwnNames) {
  std::set<std::string_view> texts, names, actions, caps;
  for (int i = 0; i <= static_cast<int>(OomClass::kLiveTensors); ++i) {
    texts.insert(class_text(static_cast<OomClass>(i)));
    names.insert(class_name(static_cast<OomClass>(i)));
  }
  for (int i = 0; i <= static_cast<int>(OomAction::kRelease); ++i)
    actions.insert(action_name(static_cast<OomAction>(i)));
  for (int i = 0; i <= static_cast<int>(CapKind::kAddresses); ++i)
    caps.insert(cap_text(static_cast<CapKind>(i)));
  EXPECT_EQ(texts.size(), 12U);
  EXPECT_EQ(names.size(), 12U);
  EXPECT_EQ(actions.size(), 14U);
  EXPECT_EQ(caps.size(), 6U);
}

}  // namespace
}  // namespace muster::memory
