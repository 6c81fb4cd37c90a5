// What is said of growth outside of the CPU's tensors. Which programs are found: leak_suite_test.cpp.
#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/memory/allocator/counters.h"
#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/allocator/scope.h"
#include "muster/testing/accelerator/fake_accelerator.h"

#include "tests/memory/leak/leak_programs.h"
#include "tests/testing/accelerator/fake.h"

namespace muster::memory {
namespace {

using test::kFake0;
using test::LeakRun;
using test::LeakStep;
using test::LeakWorld;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// The one finding of a program of the suite.
LeakFinding only_finding(const std::string& number) {
  std::vector<test::LeakProgram> all = test::outside_leak_programs();
  for (test::LeakProgram& one : test::device_leak_programs()) all.push_back(std::move(one));
  const auto program = std::ranges::find_if(
      all, [&number](const auto& one) { return one.name.starts_with(number + " "); });
  if (program == all.end()) {
    ADD_FAILURE() << "no program " << number;
    return {};
  }
  const LeakRun run = test::run_under_leak_finder(
      [&program](LeakWorld& world) { return program->make(world, true); });
  EXPECT_EQ(run.last.findings.size(), 1U) << run.last.text();
  return run.last.findings.empty() ? LeakFinding{} : run.last.findings[0];
}

TEST(OutsideGrowth, OfKernelsIsACacheWithItsCodeAsEvidenceAndItsKnobs) {
  const LeakFinding finding = only_finding("10b");
  EXPECT_THAT(finding.text(), StartsWith("cache: +"));
  EXPECT_THAT(finding.because, HasSubstr("of addresses per iteration"));
  EXPECT_THAT(finding.fix, HasSubstr("ONEDNN_PRIMITIVE_CACHE_CAPACITY=64"));
}

TEST(OutsideGrowth, OfAScriptsClonesIsTheHeapsAndNamesDeepcopy) {
  const LeakFinding finding = only_finding("21a");
  EXPECT_THAT(finding.text(), StartsWith("leak: +"));
  EXPECT_THAT(finding.because, Not(HasSubstr("addresses")));
  EXPECT_THAT(finding.fix, HasSubstr("deepcopy()"));
}

TEST(OutsideGrowth, OfPinnedMemoryIsToldOnce) {
  EXPECT_EQ(only_finding("19").kind, LeakKind::kPinned);
}

TEST(OutsideGrowth, OfADeviceNamesItAndCountsBlocks) {
  const LeakFinding finding = only_finding("17b");
  EXPECT_THAT(finding.held_by, HasSubstr("fake:0"));
  EXPECT_DOUBLE_EQ(finding.blocks_per_iteration, 1);
  EXPECT_DOUBLE_EQ(finding.bytes_per_iteration, 256 * 256 * 4);
}

TEST(OutsideGrowth, OfADeviceBeyondWhatItsScopeHasSaidIsTold) {
  constexpr int64_t kBlock = 256 << 10;
  const auto cache_of = [](int64_t said) {
    return [said](LeakWorld& world) -> LeakStep {
      const Recording before_the_fake(Level::kCounters);
      const auto fake = std::make_shared<testing::FakeAccelerator>();
      world.net->to(kFake0);
      return [said, fake, kept = std::deque<at::Tensor>()](int) mutable {
        const Scope scope("device_said_" + std::to_string(said), GrowsTo{said});
        kept.push_back(torch::empty({kBlock}, at::TensorOptions(kFake0).dtype(at::kByte)));
      };
    };
  };
  EXPECT_EQ(test::run_under_leak_finder(cache_of(100 * kBlock)).first_iteration, 0);
  // Parameters are the device's, too.
  EXPECT_EQ(test::run_under_leak_finder(cache_of(35 * kBlock)).first_iteration, 35);
}

TEST(OutsideGrowth, PinnedMemoryOfFakeDevicesIsCounted) {
  const Recording before_the_fake(Level::kCounters);
  const testing::FakeAccelerator fake;
  const Counters before = pinned_counters(kFake0.type());
  const int64_t held = held_pinned_bytes(kFake0.type());
  {
    const at::Tensor pinned = at::empty({1000}, at::TensorOptions(at::kFloat).pinned_memory(true));
    EXPECT_EQ(pinned_counters(kFake0.type()).current, before.current + 4032);  // steps of 64
    EXPECT_EQ(pinned_counters(kFake0.type()).allocations, before.allocations + 1);
    EXPECT_EQ(held_pinned_bytes(kFake0.type()), held + 4032);
  }
  EXPECT_EQ(held_pinned_bytes(kFake0.type()), held);
  EXPECT_ANY_THROW(held_pinned_bytes(c10::kCPU));
}

}  // namespace
}  // namespace muster::memory
