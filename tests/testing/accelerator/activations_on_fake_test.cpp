// Activation checkpointing and offload on devices: streams, generators, memory, device threads.
#include <functional>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/activations/checkpointed.h"
#include "muster/parallel/activations/offload.h"

#include "tests/support/error_of.h"
#include "tests/testing/accelerator/fake.h"

namespace muster {
namespace {

using parallel::ActivationOffload;
using parallel::checkpointed;
using parallel::OffloadBytes;
using tensor::SavedTensorScope;
using test::fake_guard;
using test::kFake0;
using test::kFake1;
using test::same_bits;
using testing::FakeAccelerator;
using ::testing::HasSubstr;
using Tensors = std::vector<torch::Tensor>;

constexpr int64_t kRows = 64, kWidth = 128;
constexpr int64_t kBytes = kRows * kWidth * 4;  // of an activation

struct NoisyBlockImpl : torch::nn::Module {
  NoisyBlockImpl() {
    linear = register_module("linear", torch::nn::Linear(kWidth, kWidth));
    norm = register_module("norm", torch::nn::BatchNorm1d(kWidth));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::dropout(torch::tanh(norm(linear(x))).exp(), 0.5, is_training()) + x;
  }
  torch::nn::Linear linear{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(NoisyBlock);

enum class Way { kPlain, kCheckpointed, kOffloaded, kBoth };

/// A step of four blocks on fake:0, on a stream of their own.
Tensors trained(Way way, ActivationOffload* offload = nullptr) {
  torch::manual_seed(3);
  std::vector<NoisyBlock> blocks(4);
  for (NoisyBlock& block : blocks) block->to(kFake0);
  const c10::StreamGuard stream(fake_guard().getStreamFromGlobalPool(kFake0, false));
  const torch::Tensor x = torch::randn({kRows, kWidth}).to(kFake0).requires_grad_();
  torch::Tensor y = x * 2;
  {
    std::optional<SavedTensorScope> scope;
    if (way == Way::kOffloaded || way == Way::kBoth) scope.emplace(*offload);
    for (NoisyBlock& block : blocks) {
      const bool again = way == Way::kCheckpointed || way == Way::kBoth;
      y = again ? checkpointed(block, y) : block->forward(y);
    }
  }
  const torch::Tensor loss = y.square().mean();
  y = torch::Tensor();
  Tensors result;
  loss.backward();
  for (NoisyBlock& block : blocks) {
    for (const auto& parameter : block->parameters()) result.push_back(parameter.grad().cpu());
    for (const auto& buffer : block->buffers()) result.push_back(buffer.cpu());
  }
  result.push_back(x.grad().cpu());
  return result;
}

void expect_same(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_bits(a[i], b[i])) << i;
}

TEST(ActivationsOnFake, TrainToTheSameBitsInEveryWay) {
  const FakeAccelerator fake({.poison = true});
  const Tensors plain = trained(Way::kPlain);
  expect_same(plain, trained(Way::kCheckpointed));
  for (const int prefetch : {0, 1, 3}) {
    ActivationOffload offload({.min_bytes = 1, .prefetch = prefetch});
    expect_same(plain, trained(Way::kOffloaded, &offload));
    EXPECT_EQ(offload.bytes().on_host, 0);
    EXPECT_EQ(offload.bytes().offloaded, offload.bytes().returned);
    ActivationOffload inputs({.min_bytes = 1, .prefetch = prefetch});
    expect_same(plain, trained(Way::kBoth, &inputs));
    EXPECT_EQ(inputs.bytes().offloaded, 4 * kBytes);  // one input per block
  }
}

/// What lives on fake:0 after `forward` more than before, what it returns apart.
int64_t held_by(const FakeAccelerator& fake, const std::function<torch::Tensor()>& forward) {
  const int64_t before = fake.memory(0).live;
  const torch::Tensor loss = forward();
  EXPECT_EQ(loss.numel(), 1);
  const int64_t held = fake.memory(0).live - before - 512;
  loss.backward();
  return held;
}

TEST(ActivationsOnFake, HoldTheirInputsOnlyOrNothingAtAll) {
  const FakeAccelerator fake;
  const torch::Tensor x = torch::randn({kRows, kWidth}).to(kFake0).requires_grad_();
  x.sum().backward();  // its gradient is there from now on
  const auto function = [](const torch::Tensor& y) { return y.exp().sin().exp().tanh(); };
  EXPECT_EQ(held_by(fake, [&] { return function(x * 2).sum(); }), 3 * kBytes);
  EXPECT_EQ(held_by(fake, [&] { return checkpointed(function, x * 2).sum(); }), kBytes);
  ActivationOffload offload({.min_bytes = 1});
  const auto offloaded = [&](bool checkpoint) {
    return [&, checkpoint] {
      const SavedTensorScope scope(offload);
      return (checkpoint ? checkpointed(function, x * 2) : function(x * 2)).sum();
    };
  };
  EXPECT_EQ(held_by(fake, offloaded(false)), 0);
  EXPECT_EQ(offload.bytes().offloaded, 3 * kBytes);
  EXPECT_EQ(held_by(fake, offloaded(true)), 0);
  EXPECT_EQ(offload.bytes().offloaded, 4 * kBytes);
}

TEST(ActivationsOnFake, LeaveParametersAndSmallTensorsWhereTheyAreAndMoveMemoryOnce) {
  const FakeAccelerator fake;
  torch::nn::Linear linear(kWidth, kWidth);
  linear->to(kFake0);
  const torch::Tensor x = torch::randn({kRows, kWidth}).to(kFake0).requires_grad_();
  ActivationOffload offload({.min_bytes = kBytes});
  torch::Tensor loss;
  {
    const SavedTensorScope scope(offload);
    const torch::Tensor y = torch::relu(x * 2);         // y is saved,
    const torch::Tensor z = linear(y).narrow(1, 0, 2);  // and again, with the weight
    loss = z.exp().sum();                               // small
  }
  EXPECT_EQ(offload.bytes().offloaded, kBytes);
  EXPECT_EQ(offload.bytes().shared, kBytes);
  EXPECT_EQ(offload.bytes().stayed, kWidth * kWidth * 4 + kRows * 2 * 4);
  loss.backward();
  EXPECT_EQ(offload.bytes().returned, 2 * kBytes);
  EXPECT_EQ(offload.bytes().on_host, 0);
}

TEST(ActivationsOnFake, GoBackTwiceWithARetainedGraph) {
  const FakeAccelerator fake;
  const torch::Tensor x = torch::randn({kRows, kWidth}).to(kFake0).requires_grad_();
  ActivationOffload offload({.min_bytes = 1});
  torch::Tensor loss;
  {
    const SavedTensorScope scope(offload);
    loss = x.exp().sin().sum();
  }
  loss.backward({}, /*retain_graph=*/true);
  const torch::Tensor once = x.grad().cpu();
  loss.backward();
  EXPECT_TRUE(same_bits(once * 2, x.grad()));
}

TEST(ActivationsOnFake, OutliveTheirHooks) {
  const FakeAccelerator fake;
  const torch::Tensor x = torch::randn({kRows, kWidth}).to(kFake0).requires_grad_();
  torch::Tensor loss;
  {
    ActivationOffload offload({.min_bytes = 1});
    const SavedTensorScope scope(offload);
    loss = x.exp().sum();
  }
  loss.backward();
  EXPECT_TRUE(same_bits(x.grad(), x.detach().exp()));
}

TEST(ActivationsOnFake, RefuseWhatChangedInPlaceOnItsWay) {
  const FakeAccelerator fake({.races = testing::Races::kIgnore});
  const torch::Tensor x = torch::randn({kRows, kWidth}).to(kFake0).requires_grad_();
  ActivationOffload offload({.min_bytes = 1});
  const SavedTensorScope scope(offload);
  torch::Tensor y = x.exp();
  y.mul_(2);
  const std::string refusal = test::refusal_of([&] { y.sum().backward(); });
  EXPECT_THAT(refusal, HasSubstr("is at version 1 instead of 0"));
}

TEST(ActivationsOnFake, OfTwoDevicesGoBackInTheirThreads) {
  const FakeAccelerator fake({.devices = 2});
  const auto function = [](const torch::Tensor& y) { return y.exp().sin().to(kFake1).exp().cos(); };
  const auto gradient = [&](int way) {
    const torch::Tensor x = torch::full({kRows, kWidth}, 0.5, kFake0).requires_grad_();
    ActivationOffload offload({.min_bytes = 1});
    torch::Tensor loss;
    {
      std::optional<SavedTensorScope> scope;
      if (way == 2) scope.emplace(offload);
      loss = (way == 1 ? checkpointed(function, x) : function(x)).sum();
    }
    loss.backward();
    return x.grad().cpu();
  };
  EXPECT_TRUE(same_bits(gradient(0), gradient(1)));
  EXPECT_TRUE(same_bits(gradient(0), gradient(2)));
}

}  // namespace
}  // namespace muster
