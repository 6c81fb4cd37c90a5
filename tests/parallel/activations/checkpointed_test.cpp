// Activation checkpointing: the same bits as without, and what is refused.
#include "muster/parallel/activations/checkpointed.h"

#include <functional>
#include <string>
#include <thread>

#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/precision/autocast.h"

#include "tests/support/error_of.h"

namespace muster {
namespace {

using parallel::AutocastGuard;
using parallel::checkpointed;
using parallel::RecomputeOptions;
using test::error_of;
using test::refusal_of;
using ::testing::HasSubstr;
using Tensors = std::vector<torch::Tensor>;

torch::Tensor numbers(bool requires_grad = true) {
  return torch::tensor({0.25, 0.5, 1.5}, torch::kDouble).requires_grad_(requires_grad);
}

// The same bits as without.

bool same_tensor(const torch::Tensor& a, const torch::Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || torch::equal(a, b));
}

/// A layer of every kind: convolution, batch norm, dropout, attention, in-place activations.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int64_t width) {
    conv = register_module("conv",
                           torch::nn::Conv1d(torch::nn::Conv1dOptions(width, width, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm1d(width));
    dropout = register_module("dropout", torch::nn::Dropout(0.25));
    linear = register_module("linear", torch::nn::Linear(8, 8));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor out = norm(conv(x)).relu_();
    out = dropout(out) + x;
    const torch::Tensor weights = out.matmul(out.transpose(1, 2)).softmax(-1);
    return torch::tanh(linear(weights.matmul(out)));
  }
  torch::nn::Conv1d conv{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear linear{nullptr};
};
TORCH_MODULE(Block);

enum class Way { kPlain, kCheckpointed, kNested, kLate };

torch::Tensor forward(std::vector<Block>& blocks, torch::Tensor x, Way way) {
  if (way == Way::kNested) {
    return checkpointed(
        [&blocks](torch::Tensor y) { return forward(blocks, std::move(y), Way::kCheckpointed); },
        x);
  }
  for (Block& block : blocks) {
    if (way == Way::kPlain) x = block->forward(x);
    if (way == Way::kCheckpointed) x = checkpointed(block, x);
    if (way == Way::kLate) x = checkpointed(RecomputeOptions{.early_stop = false}, block, x);
  }
  return x;
}

/// Two steps with accumulated gradients: parameters' gradients, the input's, the loss, all buffers,
/// the generator's state.
Tensors trained(Way way, std::optional<at::ScalarType> cast = std::nullopt, bool cache = true) {
  torch::manual_seed(7);
  std::vector<Block> blocks;
  for (int i = 0; i < 3; ++i) blocks.emplace_back(4);
  torch::Tensor input = torch::randn({5, 4, 8}).requires_grad_();
  Tensors found;
  for (int step = 0; step < 2; ++step) {
    torch::Tensor loss;
    {
      std::optional<AutocastGuard> guard;
      if (cast)
        guard.emplace(torch::kCPU, parallel::AutocastOptions{.dtype = *cast, .cache = cache});
      loss = forward(blocks, input * 2, way).to(torch::kFloat).square().mean();
    }
    loss.backward();
    found.push_back(loss.detach());
    found.push_back(torch::randn({3}));
  }
  for (Block& block : blocks) {
    for (const torch::Tensor& parameter : block->parameters()) found.push_back(parameter.grad());
    for (const torch::Tensor& buffer : block->buffers()) found.push_back(buffer);
  }
  found.push_back(input.grad());
  return found;
}

void expect_same_training(Way way, std::optional<at::ScalarType> cast, bool cache) {
  const Tensors plain = trained(Way::kPlain, cast, cache), other = trained(way, cast, cache);
  ASSERT_EQ(plain.size(), other.size());
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(same_tensor(plain[i], other[i])) << i;
}

TEST(Checkpointed, TrainsToTheSameBitsWithBatchNormAndDropout) {
  for (const Way way : {Way::kCheckpointed, Way::kNested, Way::kLate}) {
    SCOPED_TRACE(static_cast<int>(way));
    expect_same_training(way, std::nullopt, true);
  }
}

TEST(Checkpointed, TrainsToTheSameBitsInMixedPrecision) {
  for (const bool cache : {true, false}) {
    for (const Way way : {Way::kCheckpointed, Way::kNested}) {
      SCOPED_TRACE(static_cast<int>(way));
      expect_same_training(way, torch::kBFloat16, cache);
    }
  }
}

TEST(Checkpointed, CountsABatchOnceInBatchNorms) {
  torch::nn::BatchNorm1d norm(3);
  const torch::Tensor x = torch::randn({6, 3}).requires_grad_();
  checkpointed(RecomputeOptions{.early_stop = false}, norm, x).square().sum().backward();
  EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 1);
  torch::nn::BatchNorm1d once(3);
  once->forward(x.detach());
  EXPECT_TRUE(torch::equal(norm->running_mean, once->running_mean));
  EXPECT_TRUE(torch::equal(norm->running_var, once->running_var));
}

TEST(Checkpointed, DrawsFromATasksOwnGeneratorAndLeavesTheDefaultOneAlone) {
  const auto own = torch::make_generator<at::CPUGeneratorImpl>(uint64_t{5});
  const auto drop = [own](const torch::Tensor& x) {
    return (x * torch::empty_like(x).bernoulli_(0.5, own)).exp();
  };
  const torch::Tensor x = torch::rand({64}) + 1;
  const auto gradient = [&](bool checkpoint) {
    at::Generator(own).set_current_seed(3);
    torch::Tensor leaf = x.clone().requires_grad_();
    const torch::Tensor out =
        checkpoint ? checkpointed(RecomputeOptions{.generators = {{own}}}, drop, leaf) : drop(leaf);
    const torch::Tensor before = at::detail::getDefaultCPUGenerator().get_state();
    out.sum().backward();
    EXPECT_TRUE(torch::equal(before, at::detail::getDefaultCPUGenerator().get_state()));
    return std::pair(leaf.grad(), torch::empty({4}).uniform_(0, 1, own));
  };
  const auto plain = gradient(false), checkpoint = gradient(true);
  EXPECT_TRUE(torch::equal(plain.first, checkpoint.first));
  EXPECT_TRUE(torch::equal(plain.second, checkpoint.second));
}

TEST(Checkpointed, KeepsNothingButItsInputs) {
  const torch::Tensor x = torch::randn({100}).requires_grad_();
  c10::weak_intrusive_ptr<c10::TensorImpl> inner{c10::intrusive_ptr<c10::TensorImpl>()};
  const auto function = [&](const torch::Tensor& input) {
    const torch::Tensor y = input.exp();
    inner = y.getIntrusivePtr();
    return y.sin();
  };
  const torch::Tensor plain = function(x);
  EXPECT_FALSE(inner.expired());
  const torch::Tensor out = checkpointed(function, x);
  EXPECT_TRUE(inner.expired());
  out.sum().backward();
  EXPECT_TRUE(inner.expired());  // what backward made is gone, too
}

TEST(Checkpointed, LetsItsInputsGoWithTheGraph) {
  torch::Tensor input = torch::randn({10});
  const c10::weak_intrusive_ptr<c10::TensorImpl> weak(input.getIntrusivePtr());
  torch::Tensor w = torch::randn({10}).requires_grad_();
  torch::Tensor out =
      checkpointed([w](const torch::Tensor& x) { return (x * w).sin(); }, std::move(input));
  EXPECT_FALSE(weak.expired());
  out.sum().backward();
  EXPECT_TRUE(weak.expired());
}

TEST(Checkpointed, TakesListsOptionalTensorsAndOtherArguments) {
  const torch::Tensor a = numbers(), b = numbers();
  const auto function = [](const Tensors& list,
                           const std::optional<torch::Tensor>& maybe,
                           double factor,
                           const std::string& word,
                           const torch::Tensor& none) {
    EXPECT_FALSE(none.defined());
    EXPECT_EQ(word, "word");
    return Tensors{(list[0] * list[1]).sin() * factor, maybe->exp()};
  };
  const auto out = checkpointed(
      function, Tensors{a, b}, std::optional(a * 2), 3.0, std::string("word"), torch::Tensor());
  (out[0] + out[1]).sum().backward();
  const auto x = numbers(), y = numbers();
  const auto plain = function({x, y}, x * 2, 3.0, "word", {});
  (plain[0] + plain[1]).sum().backward();
  EXPECT_TRUE(torch::equal(a.grad(), x.grad()));
  EXPECT_TRUE(torch::equal(b.grad(), y.grad()));
}

TEST(Checkpointed, IsAPlainCallInInferenceMode) {
  const c10::InferenceMode inference;
  torch::nn::Linear linear(3, 2);
  EXPECT_TRUE(checkpointed(linear, torch::ones({1, 3})).is_inference());
}

TEST(Checkpointed, HasTheGradientOfAGradient) {
  const auto penalty = [](bool checkpoint) {
    const torch::Tensor x = numbers();
    const auto function = [](const torch::Tensor& y) { return (y.exp() * y).sin(); };
    const torch::Tensor out = checkpoint ? checkpointed(function, x) : function(x);
    const torch::Tensor g = torch::autograd::grad({out.sum()}, {x}, {}, true, true)[0];
    g.square().sum().backward();
    return x.grad();
  };
  EXPECT_TRUE(torch::equal(penalty(false), penalty(true)));
}

TEST(Checkpointed, GoesBackAfterAnotherThreadsForward) {
  const torch::Tensor x = numbers();
  torch::Tensor out;
  std::thread([&] {
    out = checkpointed([](const torch::Tensor& y) { return y.exp().sin(); }, x);
  }).join();
  out.sum().backward();
  const torch::Tensor plain = numbers();
  plain.exp().sin().sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), plain.grad()));
}

TEST(Checkpointed, GoesBackInSeveralThreadsAtOnce) {
  const torch::Tensor x = numbers();
  const torch::Tensor out =
      checkpointed([](const torch::Tensor& y) { return y.exp().sin().exp().cos(); }, x);
  Tensors found(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      found[i] = torch::autograd::grad({out.sum()}, {x}, {}, /*retain_graph=*/true)[0];
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const torch::Tensor& gradient : found) EXPECT_TRUE(torch::equal(gradient, found[0]));
  EXPECT_TRUE(found[0].defined());
}

// What goes wrong.

TEST(Checkpointed, RefusesASecondRunThatSavesOtherTensors) {
  int calls = 0;
  const auto other_shape = [&](const torch::Tensor& x) {
    return ++calls == 1 ? x.exp().sin() : x.narrow(0, 0, 2).exp().sin();
  };
  const torch::Tensor x = numbers();
  const std::string refusal = refusal_of([&] { checkpointed(other_shape, x).sum().backward(); });
  EXPECT_THAT(refusal,
              HasSubstr("recomputation of a checkpointed function in backward: its operations "
                        "save the same tensors as in its first run"));
  EXPECT_THAT(refusal, HasSubstr("tensor 1 of 2 was float64[3] on cpu and is float64[2] on cpu"));
  EXPECT_FALSE(x.grad().defined());

  calls = 0;
  const auto other_dtype = [&](const torch::Tensor& y) {
    return ++calls == 1 ? y.exp() : y.to(torch::kFloat).exp().to(torch::kDouble);
  };
  EXPECT_THAT(refusal_of([&] { checkpointed(other_dtype, x).sum().backward(); }),
              HasSubstr("tensor 1 of 1 was float64[3] on cpu and is float32[3] on cpu"));
}

TEST(Checkpointed, RefusesASecondRunThatSavesFewerOrMoreTensors) {
  int calls = 0;
  const torch::Tensor x = numbers();
  const auto fewer = [&](const torch::Tensor& y) { return ++calls == 1 ? y.exp().sin() : y.exp(); };
  EXPECT_THAT(refusal_of([&] { checkpointed(fewer, x).sum().backward(); }),
              HasSubstr("2 tensors in the first run, 1 in the second one"));
  calls = 0;
  const auto more = [&](const torch::Tensor& y) { return ++calls == 1 ? y.exp() : y.exp().sin(); };
  EXPECT_THAT(refusal_of([&] {
                checkpointed(RecomputeOptions{.early_stop = false}, more, x).sum().backward();
              }),
              HasSubstr("1 tensors in the first run, 2 in the second one"));
}

TEST(Checkpointed, RefusesAnInputThatWasChangedMeanwhile) {
  const torch::Tensor x = numbers();
  const torch::Tensor middle = x * 2;
  const torch::Tensor out = checkpointed([](const torch::Tensor& y) { return y.exp(); }, middle);
  middle.mul_(2);
  EXPECT_THAT(error_of([&] { out.sum().backward(); }),
              HasSubstr("modified by an inplace operation"));
}

TEST(Checkpointed, RefusesWhatTheFunctionChangesAfterItIsSaved) {
  const auto function = [](const torch::Tensor& y) {
    torch::Tensor result = y.exp();
    result.mul_(2);
    return result.sin();
  };
  const torch::Tensor x = numbers();
  EXPECT_THAT(error_of([&] { function(x).sum().backward(); }),
              HasSubstr("modified by an inplace operation"));
  EXPECT_THAT(refusal_of([&] { checkpointed(function, x).sum().backward(); }),
              HasSubstr("is not changed in place after the operation that saved it"));
}

TEST(Checkpointed, PassesOnWhatTheFunctionThrowsAndIsUsableAfterwards) {
  bool fail = false;
  torch::nn::BatchNorm1d norm(3);
  const auto function = [&, norm](const torch::Tensor& x) mutable {
    torch::Tensor y = norm(torch::dropout(x, 0.5, true));
    if (fail) throw std::runtime_error("no room for a second one");
    return y.exp().sin();
  };
  const torch::Tensor x = torch::randn({4, 3}).requires_grad_();
  const torch::Tensor out = checkpointed(RecomputeOptions{.buffers = norm->buffers()}, function, x);
  const torch::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
  fail = true;
  EXPECT_EQ(error_of([&] { out.sum().backward({}, true); }), "no room for a second one");
  EXPECT_TRUE(torch::equal(state, at::detail::getDefaultCPUGenerator().get_state()));
  EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 1);
  fail = false;
  out.sum().backward();
  EXPECT_TRUE(x.grad().defined());
}

TEST(Checkpointed, PassesOnWhatTheFunctionThrowsTheFirstTime) {
  const auto function = [](const torch::Tensor& x) -> torch::Tensor {
    const torch::Tensor y = x.exp();
    throw std::runtime_error("not today");
  };
  EXPECT_EQ(error_of([&] { checkpointed(function, numbers()); }), "not today");
  const torch::Tensor x = numbers();
  x.exp().sum().backward();  // no scope is left open
  EXPECT_TRUE(x.grad().defined());
}

}  // namespace
}  // namespace muster
