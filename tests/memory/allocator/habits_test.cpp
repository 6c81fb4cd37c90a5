// Operators and owners of blocks where LibTorch is not asked for them, against what it says.
#include "muster/memory/allocator/habits.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/memory/allocator/cpu_state.h"
#include "muster/memory/allocator/scope.h"
#include "muster/memory/tracker/tracker.h"

namespace muster::memory {
namespace {

constexpr uint32_t kLookedAt = 3;  // the first iterations

bool are_told() { return cpu_memory().names_are_told; }

using Told = std::tuple<int64_t, std::string, std::string, Owner>;  // bytes, scope, operator

/// Of blocks of this iteration that live now, and of no others of the process.
std::multiset<Told> made_now() {
  std::multiset<Told> made;
  for (const LiveBlock& block : live_blocks()) {
    if (block.iteration == memory_iteration())
      made.emplace(block.bytes, block.scope, block.op, block.owner);
  }
  return made;
}

/// A step with all that is hard to tell from outside: operators of several blocks, parts of
/// operators, factories of the sizes of results, work without gradients.
struct Program {
  torch::nn::Sequential net{torch::nn::Conv2d(1, 4, 3),
                            torch::nn::BatchNorm2d(4),
                            torch::nn::ReLU(),
                            torch::nn::MaxPool2d(2),
                            torch::nn::Flatten(),
                            torch::nn::Dropout(0.5),
                            torch::nn::Linear(36, 10)};
  torch::optim::Adam adam{net->parameters()};

  /// What was made until the forward ended, and until the step did.
  std::pair<std::multiset<Told>, std::multiset<Told>> step(int64_t batch) {
    adam.zero_grad();
    const at::Tensor images = torch::rand({batch, 1, 8, 8});
    at::Tensor out, loss, mask, average;
    {
      const Scope scope("forward");
      out = net->forward(images);
      mask = torch::ones({batch, 10});  // as many bytes as the result
    }
    {
      const Scope scope("loss");
      const at::NoGradGuard no_grad;
      average = out.mean(1);
    }
    loss = torch::mse_loss(out, mask);
    auto of_forward = made_now();
    loss.backward();
    adam.step();
    return {std::move(of_forward), made_now()};
  }
};

TEST(Habits, SayWhatLibTorchSaid) {
  torch::manual_seed(1);
  Program program;
  Tracker tracker(*program.net, &program.adam);
  std::pair<std::multiset<Told>, std::multiset<Told>> told;
  for (uint32_t i = 1; i <= 40; ++i) {
    EXPECT_EQ(are_told(), i <= kLookedAt || i == 32) << i;
    auto made = program.step(16);
    if (i == kLookedAt) told = std::move(made);
    if (i > kLookedAt) {
      EXPECT_EQ(made.first, told.first) << i;
      EXPECT_EQ(made.second, told.second) << i;
    }
    tracker.end_iteration();
  }
  const auto has =
      [&](const std::multiset<Told>& made, int64_t bytes, const char* op, Owner owner) {
        return made.contains({bytes, "forward", op, owner});
      };
  EXPECT_TRUE(has(told.first, 16 * 10 * 4, "aten::ones", Owner::kOther));
  EXPECT_TRUE(has(told.first, 16 * 10 * 4, "aten::addmm", Owner::kActivation));
  EXPECT_TRUE(has(told.first, 16 * 4 * 3 * 3 * 8, "aten::max_pool2d", Owner::kActivation))
      << "the places, int64";
}

TEST(Habits, WhatNeverCameSoIsTold) {
  torch::manual_seed(1);
  Program program;
  Tracker tracker(*program.net, &program.adam);
  for (uint32_t i = 1; i <= 8; ++i) {
    program.step(16);
    tracker.end_iteration();
  }
  ASSERT_FALSE(are_told());
  const auto made = program.step(24).first;
  EXPECT_TRUE(are_told()) << "from the first batch of 24 on";
  EXPECT_TRUE(made.contains({24 * 10 * 4, "forward", "aten::addmm", Owner::kActivation}));
  EXPECT_TRUE(made.contains({24 * 10 * 4, "forward", "aten::ones", Owner::kOther}));
  tracker.end_iteration();
  EXPECT_TRUE(are_told()) << "once more, from the start";
  const auto whole = program.step(24);
  tracker.end_iteration();
  EXPECT_FALSE(are_told());
  EXPECT_EQ(program.step(24), whole) << "from now on by habit";
  EXPECT_FALSE(are_told());
}

TEST(Habits, WhereTheyMisleadOperatorsAreToldAlways) {
  torch::nn::Linear net(4, 4);
  const auto step = [&](bool works) {
    const at::Tensor x = torch::ones({7, 5});
    return works ? x * x : torch::ones({7, 5});
  };
  {
    Tracker tracker(*net);
    for (uint32_t i = 1; i <= 2 * kLookedAt; ++i) {
      const at::Tensor made = step(i % 2 == 0);
      EXPECT_TRUE(made_now().contains({7 * 5 * 4,
                                       "",
                                       i % 2 == 0 ? "aten::mul" : "aten::ones",
                                       i % 2 == 0 ? Owner::kActivation : Owner::kOther}))
          << i;
      tracker.end_iteration();
    }
    EXPECT_TRUE(are_told());
  }
  EXPECT_TRUE(habits_mislead());
  forget_habits();
}

TEST(Habits, ARecordingThatWantsNamesGetsThemBesideATracker) {
  torch::nn::Linear net(4, 4);
  Tracker tracker(*net);
  for (uint32_t i = 1; i <= kLookedAt + 1; ++i) tracker.end_iteration();
  ASSERT_FALSE(are_told());
  {
    const Recording recording(Level::kTags);
    EXPECT_TRUE(are_told());
    tracker.end_iteration();
    EXPECT_TRUE(are_told());
  }
  EXPECT_FALSE(are_told());
}

TEST(Habits, ATrackerThatLooksAtAllIterationsHasNone) {
  torch::nn::Linear net(4, 4);
  Tracker tracker(*net, nullptr, {.looks_every = 1});
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(are_told());
    tracker.end_iteration();
  }
}

}  // namespace
}  // namespace muster::memory
