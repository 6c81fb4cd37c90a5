// Losses and metrics that stay on a device until the step behind them is queued.
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/json.h"
#include "muster/testing/run_ranks.h"
#include "muster/train/progress/step_report.h"

#include "tests/testing/accelerator/fake.h"

namespace muster {
namespace {

using test::kFake0;
using testing::FakeAccelerator;
using train::Meter;
using train::Reduce;
using train::StepReport;
using train::StepSums;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Meter::List four_metrics() {
  return std::make_shared<const std::vector<train::Metric>>(
      std::vector<train::Metric>{{.name = "correct"},
                                 {.name = "tokens", .reduce = Reduce::kSum},
                                 {.name = "least", .reduce = Reduce::kMin},
                                 {.name = "most", .reduce = Reduce::kMax}});
}

/// What a rank has of a step: batches of unequal weight; in step 2 the last rank has none, in step 3
/// the loss of the first is not finite, and "most" is not always there.
StepSums sums_of(int64_t step, int rank, int world, c10::Device device, const Meter::List& list) {
  StepSums sums(list, device);
  if (step == 2 && rank == world - 1 && world > 1) return sums;
  const at::Generator generator =
      at::detail::createCPUGenerator(static_cast<uint64_t>(100 * step + rank + 1));
  for (const double weight : {3.0, 4.0, 0.7}) {
    const at::Tensor numbers = torch::randn({3}, generator);
    const bool breaks = step == 3 && rank == 0 && weight == 4;
    sums.add_loss((breaks ? torch::full({}, kNan) : numbers[0].abs()).to(device), weight);
    sums.add(0, torch::tensor(int64_t{step + rank}).to(device), weight);
    sums.add(1, numbers[1].to(at::kBFloat16).to(device), weight);
    sums.add(2, numbers[2].view({1}).to(device), weight);
    if (rank > 0 || step == 1) sums.add(3, numbers[2].to(device), weight);
  }
  return sums;
}

struct Heard {
  bool stop = false, hook_failed = false;
  int64_t not_finite = 0;
  Json sum;
};

/// Five steps; the answers are waited for `late` steps later.
std::vector<Heard> exchange(const distributed::ProcessGroup& group,
                            c10::Device sums,
                            c10::Device exchanged,
                            size_t late) {
  const Meter::List list = four_metrics();
  StepReport report(group, list, exchanged);
  std::vector<Heard> heard;
  const auto hear = [&](size_t keep) {
    while (report.pending() > keep) {
      report.wait();
      heard.push_back({.stop = report.stop(),
                       .hook_failed = report.hook_failed(),
                       .not_finite = report.ranks_not_finite(),
                       .sum = report.sum().to_json()});
    }
  };
  for (int64_t step = 0; step < 5; ++step) {
    const StepSums local = sums_of(step, group.rank(), group.world_size(), sums, list);
    report.post({.stop = step == 4, .hook_failed = step == 1 && group.rank() == 0}, local);
    report.send_answers();
    hear(late);
  }
  hear(0);
  return heard;
}

void expect_same(const std::vector<Heard>& heard, const std::vector<Heard>& expected) {
  ASSERT_EQ(heard.size(), expected.size());
  for (size_t i = 0; i < heard.size(); ++i) {
    EXPECT_EQ(heard[i].stop, expected[i].stop) << i;
    EXPECT_EQ(heard[i].hook_failed, expected[i].hook_failed) << i;
    EXPECT_EQ(heard[i].not_finite, expected[i].not_finite) << i;
    EXPECT_EQ(json_text(heard[i].sum), json_text(expected[i].sum)) << i;
  }
}

// The CPU's are read at once; the same numbers come from a device a step later, bit for bit, whether
// the ranks exchange them there or on the host.
TEST(LateSums, AreThoseOfTheCpuBitForBit) {
  for (const int world : {1, 2, 3}) {
    const FakeAccelerator fake({.poison = true});
    std::vector<std::vector<Heard>> expected(static_cast<size_t>(world));
    testing::run_ranks(world, [&](const distributed::ProcessGroup& group) {
      expected[static_cast<size_t>(group.rank())] = exchange(group, c10::kCPU, c10::kCPU, 0);
    });
    EXPECT_TRUE(expected[0][4].stop);
    EXPECT_TRUE(expected[0][1].hook_failed);
    EXPECT_EQ(expected[0][3].not_finite, 1);
    for (const c10::Device exchanged : {c10::Device(c10::kCPU), kFake0}) {
      testing::run_ranks(world, [&](const distributed::ProcessGroup& group) {
        // Threads of ranks that share a device have a stream each.
        const c10::StreamGuard own(test::fake_guard().getStreamFromGlobalPool(kFake0));
        expect_same(exchange(group, kFake0, exchanged, 1),
                    expected[static_cast<size_t>(group.rank())]);
      });
    }
  }
}

TEST(LateSums, NothingIsReadOfTheStepInHand) {
  FakeAccelerator fake;
  testing::run_ranks(1, [&](const distributed::ProcessGroup& group) {
    const Meter::List list = four_metrics();
    StepReport report(group, list, c10::kCPU);
    int reads = 0;
    fake.on_operator(
        [&](std::string_view op, c10::Device) { reads += op == "aten::_local_scalar_dense"; });
    report.post({}, sums_of(0, 0, 1, kFake0, list));
    report.post({}, sums_of(1, 0, 1, kFake0, list));
    report.send_answers();
    EXPECT_EQ(reads, 0);
    report.wait();
    StepReport of_cpu(group, list, c10::kCPU);
    of_cpu.post({}, sums_of(0, 0, 1, c10::kCPU, list));
    of_cpu.wait();
    EXPECT_EQ(json_text(report.sum().to_json()), json_text(of_cpu.sum().to_json()));
    EXPECT_EQ(report.pending(), 1U);
    report.wait();
    EXPECT_EQ(reads, 0);
    fake.on_operator({});
  });
}

TEST(LateSums, ACopyToTheHostIsThereWhenItIsWaitedFor) {
  const FakeAccelerator fake;
  const at::Tensor there = torch::arange(5, kFake0);
  tensor::HostCopy copy(there);
  there.fill_(7);  // queued behind it
  EXPECT_TRUE(torch::equal(copy.wait(), torch::arange(5)));
  EXPECT_TRUE(torch::equal(copy.wait(), torch::arange(5)));
  const at::Tensor here = torch::ones({2});
  EXPECT_EQ(tensor::HostCopy(here).wait().data_ptr(), here.data_ptr());
}

}  // namespace
}  // namespace muster
