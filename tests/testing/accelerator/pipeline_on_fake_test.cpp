// Pipelines over the fake accelerator: numbers, order between streams, and memory.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/pipeline/measure.h"
#include "muster/parallel/pipeline/pipeline.h"
#include "muster/pipeline/schedule/schedule.h"

#include "tests/support/distance.h"
#include "tests/testing/accelerator/fake.h"

namespace muster {
namespace {

using parallel::Block;
using parallel::blocks_of;
using parallel::Pipeline;
using parallel::Tensors;
using test::kFake0;
using test::kFake1;
using test::same_bits;
using testing::FakeAccelerator;
using ::testing::HasSubstr;

at::Tensor mean_of_squared_errors(const Tensors& outputs, const Tensors& targets) {
  return (outputs[0] - targets[0]).pow(2).mean();
}

torch::nn::Sequential deep_net(int count, int64_t width) {
  torch::manual_seed(3);
  torch::nn::Sequential net;
  for (int i = 0; i < count; ++i) {
    net->push_back(torch::nn::Linear(width, width));
    net->push_back(torch::nn::Functional(torch::relu));
  }
  return net;
}

struct PipelineRun {
  std::vector<at::Tensor> tensors;  // losses, outputs, parameters
};

PipelineRun run_pipeline(const std::string& schedule,
                         const pipeline::Split& first_block,
                         const std::vector<c10::Device>& devices) {
  const torch::nn::Sequential net = deep_net(4, 48);
  Pipeline pipe(blocks_of(net),
                devices,
                &mean_of_squared_errors,
                {.schedule = schedule, .micro_batches = 4, .first_block = first_block});
  torch::optim::SGD optimizer(pipe.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::manual_seed(5);
  PipelineRun made;
  for (int i = 0; i < 4; ++i) {
    const at::Tensor x = torch::randn({30, 48}), y = torch::randn({30, 48});
    optimizer.zero_grad();
    made.tensors.push_back(pipe.step({x}, {y}).loss.cpu());
    optimizer.step();
  }
  made.tensors.push_back(pipe.forward({torch::randn({7, 48})})[0].cpu());
  for (const at::Tensor& parameter : pipe.parameters()) made.tensors.push_back(parameter.cpu());
  return made;
}

// A race between the streams of two ranks, or with the caller's, would throw; memory that is read
// too early or too late is NaN.
TEST(PipelineOnFake, HasTheNumbersOfRanksOnTheCpuWithoutARace) {
  const FakeAccelerator fake({.devices = 2, .poison = true});
  const std::vector<std::pair<std::string, pipeline::Split>> cases{{"gpipe", {0, 4}},
                                                                   {"1f1b", {0, 2}},
                                                                   {"interleaved", {0, 2, 4, 6}},
                                                                   {"zb1p", {0, 4}},
                                                                   {"zbv", {0, 1, 3, 6}}};
  for (const auto& [schedule, first] : cases) {
    SCOPED_TRACE(schedule);
    const PipelineRun on_cpu = run_pipeline(schedule, first, {at::kCPU, at::kCPU});
    const PipelineRun on_one = run_pipeline(schedule, first, {kFake0, kFake0});
    const PipelineRun on_two = run_pipeline(schedule, first, {kFake0, kFake1});
    const PipelineRun on_both = run_pipeline(schedule, first, {at::kCPU, kFake1});
    for (size_t i = 0; i < on_two.tensors.size(); ++i) {
      EXPECT_TRUE(same_bits(on_two.tensors[i], on_one.tensors[i])) << i;
      EXPECT_LE(test::difference({on_two.tensors[i]}, {on_cpu.tensors[i]}), 1e-6) << i;
      EXPECT_LE(test::difference({on_both.tensors[i]}, {on_cpu.tensors[i]}), 1e-6) << i;
    }
  }
}

// Each stage is on its device alone: parameters are moved once, nothing of another stage is there.
TEST(PipelineOnFake, AModelThatExceedsOneDeviceTrainsOnTwo) {
  constexpr int64_t kWidth = 512;  // 1 MiB a layer, as much for its gradient
  const FakeAccelerator fake({.devices = 2, .bytes_per_device = int64_t{12} << 20});
  const auto step = [](const std::vector<c10::Device>& devices, const pipeline::Split& first) {
    const torch::nn::Sequential net = deep_net(8, kWidth);
    Pipeline pipe(blocks_of(net),
                  devices,
                  &mean_of_squared_errors,
                  {.micro_batches = 4, .first_block = first});
    return pipe.step({torch::randn({64, kWidth})}, {torch::randn({64, kWidth})})
        .loss.item<double>();
  };
  EXPECT_THAT([&] { step({kFake0}, {0}); },
              ::testing::ThrowsMessage<std::exception>(HasSubstr("out of memory")));
  EXPECT_GT(step({kFake0, kFake1}, {0, 8}), 0);
}

TEST(PipelineOnFake, OutOfMemoryIsNamedWithItsActionAndTheNextStepGoesOn) {
  const FakeAccelerator fake({.devices = 2});
  const torch::nn::Sequential net = deep_net(4, 64);
  Pipeline pipe(blocks_of(net),
                {kFake0, kFake1},
                &mean_of_squared_errors,
                {.micro_batches = 4, .first_block = {0, 4}});
  FakeAccelerator& device = const_cast<FakeAccelerator&>(fake);
  const at::Tensor x = torch::randn({16, 64}), y = torch::randn({16, 64});
  const double loss = pipe.step({x}, {y}).loss.item<double>();
  pipe.zero_grad();
  const int64_t live = device.memory(1).live;
  for (const int64_t nth : {1, 4, 9, 17}) {
    device.fail_allocation(1, nth);
    try {
      pipe.step({x}, {y});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1 (fake:1): "));
      EXPECT_THAT(error.what(), HasSubstr("stage 1, micro-batch"));
    }
    EXPECT_EQ(device.memory(1).live, live) << "something of the failed step is still there";
    EXPECT_EQ(pipe.step({x}, {y}).loss.item<double>(), loss);
    pipe.zero_grad();
  }
}

// Of a model this narrow that is most: a bias of 12 bytes has a block of 512, as its gradient has.
TEST(PipelineOnFake, BytesThatAreMeasuredAreThoseThatTheDeviceCounts) {
  FakeAccelerator fake({.devices = 1});
  const torch::nn::Sequential net = deep_net(2, 3);
  const at::Tensor x = torch::randn({8, 3}), y = torch::randn_like(x);
  const auto costs = measure_blocks(blocks_of(net),
                                    parallel::cut_batch({x}, {y}, 1)[0],
                                    &mean_of_squared_errors,
                                    kFake0,
                                    {.warm_up = 1, .repeats = 1, .bytes_beside_parameter = 1});
  ASSERT_EQ(costs.size(), 4U);
  EXPECT_EQ(costs[0].parameter_bytes, 2 * (512 + 512));
  EXPECT_EQ(costs[1].parameter_bytes, 0);
  EXPECT_EQ(costs[0].handed_bytes, 512);
  EXPECT_EQ(costs[1].activation_bytes, 512) << "96 bytes: what ReLU has made";
}

constexpr int64_t kPlanWidth = 64,
                  kPlanRows = 512;   // activations far above what an operation needs
constexpr int64_t kPlanBlocks = 12;  // of a stage

/// Costs of blocks as they are measured, but for their times, which are no clock's: each block takes as
/// long as another, and backward as long as both its halves.
std::vector<pipeline::BlockCosts> costs_of_deep_net(int64_t blocks) {
  const torch::nn::Sequential net = deep_net(static_cast<int>(blocks / 2), kPlanWidth);
  const at::Tensor x = torch::randn({kPlanRows, kPlanWidth}), y = torch::randn_like(x);
  auto costs = measure_blocks(blocks_of(net),
                              parallel::cut_batch({x}, {y}, 1)[0],
                              &mean_of_squared_errors,
                              kFake0,
                              {.warm_up = 1, .repeats = 1});
  for (pipeline::BlockCosts& block : costs) {
    block.forward_s = block.input_s = block.weight_s = 1;
    block.backward_s = 2;
  }
  return costs;
}

struct PlanCase {
  const char* schedule;
  int64_t stages_per_rank;
};

// The most that each device held in a step, beside what it holds between steps. How long a letter
// waits depends on the threads, but not how long it may: with stages of twelve blocks that is less
// than a tenth.
TEST(PipelineOnFake, PeakMemoryOfEachRankIsThatOfThePlan) {
  FakeAccelerator fake({.devices = 4});
  for (const auto& [schedule, per_rank] : {PlanCase{"gpipe", 1},
                                           PlanCase{"1f1b", 1},
                                           PlanCase{"interleaved", 2},
                                           PlanCase{"zb1p", 1},
                                           PlanCase{"zbv", 2}}) {
    for (const int64_t ranks : {2, 4}) {
      const int64_t stages = per_rank * ranks;
      const auto costs = costs_of_deep_net(stages * kPlanBlocks);
      pipeline::Split first;
      for (int64_t stage = 0; stage < stages; ++stage) first.push_back(stage * kPlanBlocks);
      std::vector<c10::Device> devices;
      for (int rank = 0; rank < ranks; ++rank) devices.push_back(FakeAccelerator::device(rank));
      for (const int64_t micro_batches : {2, 4, 8}) {
        SCOPED_TRACE(concat(schedule, ", ", ranks, " ranks, ", micro_batches, " micro-batches"));
        const torch::nn::Sequential net =
            deep_net(static_cast<int>(stages * kPlanBlocks / 2), kPlanWidth);
        Pipeline pipe(blocks_of(net),
                      devices,
                      &mean_of_squared_errors,
                      {.schedule = schedule, .micro_batches = micro_batches, .first_block = first});
        const at::Tensor x = torch::randn({kPlanRows * micro_batches, kPlanWidth});
        const at::Tensor y = torch::randn_like(x);
        const auto lists =
            pipeline::make_schedule(
                schedule, {.stages = stages, .ranks = ranks, .micro_batches = micro_batches})
                .lists;
        const auto planned = rank_bytes(pipeline::BlockSums(costs), first, lists);
        pipe.step({x}, {y});
        for (int device = 0; device < ranks; ++device) fake.reset_peak(device);
        pipe.zero_grad();
        pipe.step({x}, {y});
        for (int device = 0; device < ranks; ++device)
          EXPECT_NEAR(double(fake.memory(device).peak) / planned[size_t(device)], 1, 0.1)
              << "rank " << device << ": " << fake.memory(device).peak << " of "
              << planned[size_t(device)];
      }
    }
  }
}

}  // namespace
}  // namespace muster
