#include "muster/memory/tracker/tracker.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "muster/memory/allocator/scope.h"

#include "tests/support/error_of.h"

namespace muster::memory {
namespace {

constexpr int64_t kFloat = 4;

/// 20 -> 30 -> 10, batches of 50; what it takes is counted by hand in the tests.
struct Net : torch::nn::Module {
  Net() {
    first = register_module("lower", torch::nn::Linear(20, 30));
    second = register_module("upper", torch::nn::Linear(30, 10));
    register_buffer("mean", torch::zeros({100}));
  }
  at::Tensor forward(const at::Tensor& x) { return second(torch::relu(first(x))); }

  torch::nn::Linear first{nullptr}, second{nullptr};
};

constexpr int64_t kParameterBytes = (20 * 30 + 30 + 30 * 10 + 10) * kFloat;

int64_t of(const OwnerBytes& bytes, Owner owner) { return bytes[static_cast<size_t>(owner)]; }

int64_t sum_of(const OwnerBytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

/// What leaking programs of other tests in this process have left behind.
OwnerBytes left_before() { return cpu_owner_bytes(); }

OwnerBytes without(OwnerBytes bytes, const OwnerBytes& left) {
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] -= left[i];
  return bytes;
}

void train_step(Net& net, torch::optim::Optimizer& optimizer, const at::Tensor& batch) {
  optimizer.zero_grad();
  net.forward(batch).sum().backward();
  optimizer.step();
}

TEST(Tracker, OwnersAreThoseThatTheModelsShapesSay) {
  const Recording recording(Level::kTags);  // before the module: its blocks are recorded
  const OwnerBytes left = left_before();
  Net net;
  torch::optim::Adam adam(net.parameters());
  Tracker tracker(net, &adam);
  for (int i = 0; i < 3; ++i) {
    const at::Tensor batch = torch::ones({50, 20});
    tracker.input(batch);
    train_step(net, adam, batch);
    const IterationMemory& memory = tracker.end_iteration();
    EXPECT_EQ(memory.iteration, static_cast<uint32_t>(i + 1));
    const OwnerBytes at_end = without(memory.at_end, left);
    EXPECT_EQ(of(at_end, Owner::kParameter), kParameterBytes);
    EXPECT_EQ(of(at_end, Owner::kBuffer), 100 * kFloat);
    EXPECT_EQ(of(at_end, Owner::kGradient), kParameterBytes);
    EXPECT_EQ(of(at_end, Owner::kOptimizerState), 2 * kParameterBytes);
    EXPECT_EQ(of(at_end, Owner::kInput), 50 * 20 * kFloat);
    EXPECT_EQ(of(at_end, Owner::kActivation), 0);
    EXPECT_EQ(of(at_end, Owner::kOther), 0);
    EXPECT_EQ(sum_of(memory.at_end), memory.end_bytes);
    EXPECT_EQ(sum_of(memory.at_peak), memory.peak_bytes);
    EXPECT_GE(memory.peak_bytes, memory.end_bytes);
    EXPECT_GT(memory.allocations, 0);
  }
}

TEST(Tracker, ThePeaksActivationsAreWhatTheForwardKeeps) {
  const Recording recording(Level::kTags);
  const OwnerBytes left = left_before();
  Net net;
  torch::optim::SGD sgd(net.parameters(), 0.1);
  Tracker tracker(net, &sgd);
  at::Tensor batch = torch::ones({50, 20});
  for (int i = 0; i < 2; ++i) {
    {
      // The peak is in the forward: everything is alive, and nothing else comes.
      const at::Tensor hidden = net.first(batch), active = torch::relu(hidden);
      const at::Tensor out = net.second(active);
    }
    const IterationMemory& memory = tracker.end_iteration();
    EXPECT_EQ(of(without(memory.at_peak, left), Owner::kActivation),
              (50 * 30 + 50 * 30 + 50 * 10) * kFloat);
    EXPECT_EQ(of(without(memory.at_end, left), Owner::kActivation), 0);
  }
}

TEST(Tracker, WhatAModuleGetsLaterIsItsOwn) {
  const Recording recording(Level::kTags);
  const OwnerBytes left = left_before();
  Net net;
  Tracker tracker(net);
  for (int i = 0; i < 10; ++i) tracker.end_iteration();
  net.register_parameter("late", torch::ones({123}));
  tracker.end_iteration();
  EXPECT_EQ(of(without(tracker.last().at_end, left), Owner::kParameter),
            kParameterBytes + 123 * kFloat);
}

TEST(Tracker, TiedMemoryIsTheParameters) {
  const Recording recording(Level::kTags);
  const OwnerBytes left = left_before();
  Net net;
  net.register_buffer("tied", net.first->weight.detach());
  Tracker tracker(net);
  EXPECT_EQ(of(without(tracker.end_iteration().at_end, left), Owner::kParameter), kParameterBytes);
  EXPECT_EQ(of(without(tracker.last().at_end, left), Owner::kBuffer), 100 * kFloat);
}

TEST(Tracker, WhatWasAllocatedBeforeIsCountedFromItsStorages) {
  Net net;  // without a recording
  const OwnerBytes left = left_before();
  Tracker tracker(net);
  const IterationMemory& memory = tracker.end_iteration();
  EXPECT_EQ(of(without(memory.at_end, left), Owner::kParameter), kParameterBytes);
  EXPECT_EQ(of(without(memory.at_end, left), Owner::kBuffer), 100 * kFloat);
  EXPECT_EQ(sum_of(memory.at_end), memory.end_bytes);
  EXPECT_EQ(sum_of(memory.at_peak), memory.peak_bytes);
}

TEST(Tracker, LayersAreToldByTheParametersThatOperatorsTake) {
  Net net;
  Tracker tracker(net, nullptr, {.level = Level::kLayers});
  const at::Tensor batch = torch::ones({50, 20});
  {
    const at::Tensor hidden = net.first(batch), active = torch::relu(hidden);
    const at::Tensor out = net.second(active);
  }
  const IterationMemory& memory = tracker.end_iteration();
  std::map<std::string, int64_t> at_peak;
  for (const LayerBytes& layer : memory.layers) at_peak[layer.layer] = layer.at_peak;
  EXPECT_EQ(at_peak["lower"], 2 * 50 * 30 * kFloat);  // the relu goes with the layer before it
  EXPECT_EQ(at_peak["upper"], 50 * 10 * kFloat);
}

TEST(Tracker, AnotherOptimizersStateIsAskedFor) {
  const Recording recording(Level::kTags);
  const OwnerBytes left = left_before();
  Net net;
  std::vector<at::Tensor> state{torch::ones({1000})};
  Tracker tracker(net, nullptr, {.optimizer_state = [&state] { return state; }});
  EXPECT_EQ(of(without(tracker.end_iteration().at_end, left), Owner::kOptimizerState),
            1000 * kFloat);
}

TEST(Tracker, MetricsHaveTheirDocumentedNames) {
  Net net;
  Tracker tracker(net);
  std::map<std::string, double> metrics;
  for (const auto& [name, value] : metrics_of(tracker.end_iteration())) metrics[name] = value;
  for (const char* name : {"memory/peak_bytes",
                           "memory/end_bytes",
                           "memory/allocations",
                           "memory/other_heap_bytes",
                           "memory/end/parameter",
                           "memory/peak/activation",
                           "memory/end/optimizer_state"})
    EXPECT_TRUE(metrics.contains(name)) << name;
  EXPECT_EQ(metrics["memory/end/parameter"],
            static_cast<double>(of(tracker.last().at_end, Owner::kParameter)));
}

TEST(Tracker, OfCountersAloneTellsNoOwners) {
  Net net;
  Tracker tracker(net, nullptr, {.level = Level::kCounters});
  const at::Tensor batch = torch::ones({50, 20});
  net.forward(batch).sum().backward();
  const IterationMemory& memory = tracker.end_iteration();
  EXPECT_GT(memory.peak_bytes, 0);
  EXPECT_EQ(sum_of(memory.at_peak), 0);
  for (const auto& [name, value] : metrics_of(memory))
    EXPECT_EQ(name.find("memory/end/"), std::string::npos) << name;
}

TEST(Tracker, ASecondOneIsRefusedAndTheFirstGoesOn) {
  Net net;
  Tracker tracker(net);
  EXPECT_EQ(test::muster_error_of([&net] { Tracker second(net); }).kind(), ErrorKind::kUsage);
  EXPECT_EQ(tracker.end_iteration().iteration, 1U);
}

TEST(Tracker, OneOfLevelOffIsRefusedAndLeavesThePlaceFree) {
  Net net;
  EXPECT_EQ(
      test::muster_error_of([&net] { Tracker off(net, nullptr, {.level = Level::kOff}); }).kind(),
      ErrorKind::kUsage);
  Tracker counters(net, nullptr, {.level = Level::kCounters});
  EXPECT_EQ(counters.iteration(), 1U);
}

}  // namespace
}  // namespace muster::memory
