// Each allocation of a guarded step fails once: all of them end in the weights of a run that was told the
// micro-batch, hold nothing that is not needed, and leave no rank waiting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/testing/run_ranks.h"

#include "tests/memory/guard/guarded_job.h"

namespace muster::memory {
namespace {

using test::apart;
using test::GuardedJob;
using test::GuardedRun;
using test::same_weights;
using test::weights_after;
using testing::FakeAccelerator;

using Weights = std::vector<at::Tensor>;

constexpr int64_t kFailingStep = 1;  // the second: the optimizer has its state
constexpr int64_t kRows = 13;        // in halves of 7 and 6

/// Allocations of the failing step's forwards and backwards on a rank's device, when none fails.
int64_t allocations_of_step(FakeAccelerator& fake, const GuardedJob& job) {
  int64_t from = 0, to = 0;
  GuardedRun run{.rows = kRows};
  run.before = [&](int64_t step, Guard&) {
    if (step == kFailingStep) from = fake.memory(0).allocations;
  };
  run.after = [&](int64_t step, Guard&) {
    if (step == kFailingStep) to = fake.memory(0).allocations;
  };
  weights_after(job, run, FakeAccelerator::device(0));
  return to - from;
}

/// The run that is told to take `micro_batch` rows at a time from the failing step on.
GuardedRun told(int64_t micro_batch) {
  GuardedRun run{.rows = kRows};
  run.before = [micro_batch](int64_t step, Guard& guard) {
    if (step == kFailingStep) guard.load_state({.micro_batch = micro_batch});
  };
  return run;
}

/// The run in which the nth allocation of the failing step fails on `device`, and those behind it as
/// long as that attempt lasts, if `all_after`.
GuardedRun failing(FakeAccelerator& fake, int device, int64_t nth) {
  GuardedRun run{.rows = kRows};
  run.options.retry_same_size = false;
  run.before = [&fake, device, nth](int64_t step, Guard&) {
    if (step == kFailingStep) fake.fail_allocation(device, nth);
  };
  run.after = [&fake, device](int64_t, Guard&) { fake.fail_allocation(device, 0); };
  return run;
}

class GuardSweep : public ::testing::TestWithParam<GuardedJob> {};

TEST_P(GuardSweep, EachFailedAllocationEndsInTheBitsOfTheRunThatWasToldTheMicroBatch) {
  FakeAccelerator fake({.poison = true});
  const c10::Device device = FakeAccelerator::device(0);
  const GuardedJob& job = GetParam();
  const Weights expected = weights_after(job, told(7), device);
  const Weights whole = weights_after(job, {.rows = kRows}, device);
  const int64_t allocations = allocations_of_step(fake, job);
  ASSERT_GT(allocations, 10) << "or the step is not on the device";
  const int64_t live = fake.memory(0).live;
  int64_t passed = 0;
  for (int64_t nth = 1; nth <= allocations; ++nth) {
    const int64_t failures = fake.memory(0).out_of_memory;
    const Weights weights = weights_after(job, failing(fake, 0, nth), device);
    const bool failed_once = fake.memory(0).out_of_memory == failures + 1;
    const bool same = same_weights(weights, expected);
    const bool near = apart(weights, whole) < 1e-6;
    const bool nothing_left = fake.memory(0).live == live;
    EXPECT_TRUE(failed_once && same && near && nothing_left)
        << "allocation " << nth << " of " << allocations << ": failed " << failed_once << ", same "
        << same << ", apart " << apart(weights, whole) << ", live " << fake.memory(0).live - live;
    passed += failed_once && same && near && nothing_left;
  }
  EXPECT_EQ(passed, allocations) << "100 % are to pass";
  RecordProperty("allocations", static_cast<int>(allocations));
}

// What an injected failure says (there was room) is reason to try the same again, first.
TEST_P(GuardSweep, WhereThereWasRoomTheStepIsMadeAgainAsItWas) {
  FakeAccelerator fake({.poison = true});
  const c10::Device device = FakeAccelerator::device(0);
  const GuardedJob& job = GetParam();
  const Weights whole = weights_after(job, {.rows = kRows}, device);
  const int64_t allocations = allocations_of_step(fake, job);
  for (int64_t nth = 1; nth <= allocations; nth += 3) {
    GuardedRun run = failing(fake, 0, nth);
    run.options.retry_same_size = true;
    int64_t micro_batch = -1;
    const auto after = run.after;
    run.after = [&](int64_t step, Guard& guard) {
      after(step, guard);
      micro_batch = guard.micro_batch();
    };
    EXPECT_TRUE(same_weights(weights_after(job, run, device), whole)) << "allocation " << nth;
    EXPECT_EQ(micro_batch, 0);
  }
}

// The first attempt fails at once, the second, of 7 and 6 rows, at each of its allocations.
TEST_P(GuardSweep, ASecondFailureHalvesAgain) {
  FakeAccelerator fake({.poison = true});
  const c10::Device device = FakeAccelerator::device(0);
  const GuardedJob& job = GetParam();
  const Weights expected = weights_after(job, told(4), device);
  const int64_t allocations = 2 * allocations_of_step(fake, job);
  for (int64_t nth = 1; nth <= allocations; nth += 5) {
    GuardedRun run{.rows = kRows};
    run.options.retry_same_size = false;
    run.before = [&](int64_t step, Guard&) {
      if (step == kFailingStep) fake.fail_allocation(0, 1);
    };
    run.options.heard = [&](const GuardEvent& event) {
      if (event.micro_batch == 7) fake.fail_allocation(0, nth);
    };
    run.after = [&](int64_t, Guard&) { fake.fail_allocation(0, 0); };
    EXPECT_TRUE(same_weights(weights_after(job, run, device), expected)) << "allocation " << nth;
  }
}

/// Weights of each rank; `options` of rank r have the group.
std::vector<Weights> on_ranks(int world,
                              const GuardedJob& job,
                              const std::function<GuardedRun(int rank)>& run_of) {
  std::vector<Weights> weights(static_cast<size_t>(world));
  testing::run_ranks(world, [&](const distributed::ProcessGroup& group) {
    GuardedRun run = run_of(group.rank());
    run.options.group = group;
    weights[static_cast<size_t>(group.rank())] =
        weights_after(job, run, FakeAccelerator::device(group.rank()));
  });
  return weights;
}

// One rank fails, or all do, at allocations spread over the step: none waits for ever, and all end alike.
TEST_P(GuardSweep, RanksAgreeWhicheverFailsAtWhicheverAllocation) {
  const GuardedJob& job = GetParam();
  for (const int world : {2, 4}) {
    FakeAccelerator fake({.devices = world, .poison = true});
    const std::vector<Weights> expected = on_ranks(world, job, [](int) { return told(7); });
    const int64_t allocations = allocations_of_step(fake, job);
    const int64_t stride = std::max<int64_t>(1, allocations / (world == 2 ? 12 : 5));
    for (int64_t nth = 1; nth <= allocations; nth += stride) {
      for (const int who : {0, world - 1, world}) {  // the first, the last, all
        const std::vector<Weights> weights = on_ranks(world, job, [&](int rank) {
          GuardedRun run = failing(fake, rank, who == world || who == rank ? nth : 0);
          return run;
        });
        for (int rank = 0; rank < world; ++rank) {
          EXPECT_TRUE(
              same_weights(weights[static_cast<size_t>(rank)], expected[static_cast<size_t>(rank)]))
              << "rank " << rank << " of " << world << ", failed: " << who << ", allocation "
              << nth;
        }
        EXPECT_TRUE(same_weights(weights[0], weights.back())) << "replicas are alike";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models,
                         GuardSweep,
                         ::testing::Values(test::mlp_job(), test::cnn_job(), test::lstm_job()),
                         [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace muster::memory
