// Backward in two halves: the same gradients as at once, in graphs of every shape.
#include "muster/parallel/pipeline/split_backward.h"

#include <functional>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/distance.h"

namespace muster {
namespace {

using parallel::backward_of_inputs;
using parallel::InputGradients;
using test::difference;
using Tensors = std::vector<torch::Tensor>;

torch::Tensor leaf(std::vector<int64_t> sizes) {
  return torch::randn(sizes, torch::kDouble).requires_grad_();
}

/// `graph` of inputs and parameters: halves against torch::autograd::backward.
void expect_the_same(const Tensors& inputs,
                     const Tensors& parameters,
                     const std::function<Tensors()>& graph) {
  const Tensors outputs = graph();
  Tensors gradients;
  for (const torch::Tensor& output : outputs) gradients.push_back(torch::randn_like(output));
  Tensors expected_inputs, expected_parameters;
  torch::autograd::backward(outputs, gradients);
  const auto move_gradients = [](const Tensors& leaves) {
    Tensors found;
    for (const torch::Tensor& one : leaves) {
      found.push_back(one.grad().defined() ? one.grad().clone() : torch::zeros_like(one));
      one.mutable_grad() = torch::Tensor();
    }
    return found;
  };
  expected_inputs = move_gradients(inputs);
  expected_parameters = move_gradients(parameters);

  InputGradients halves = backward_of_inputs(graph(), gradients, inputs);
  for (const torch::Tensor& one : inputs) EXPECT_FALSE(one.grad().defined());
  for (const torch::Tensor& one : parameters) EXPECT_FALSE(one.grad().defined());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!halves.gradients[i].defined()) halves.gradients[i] = torch::zeros_like(inputs[i]);
  EXPECT_LE(difference(halves.gradients, expected_inputs), 1e-13);
  halves.weights.accumulate();
  EXPECT_LE(difference(move_gradients(parameters), expected_parameters), 1e-13);
  halves.weights.accumulate();  // nothing is left of it
  for (const torch::Tensor& one : parameters) EXPECT_FALSE(one.grad().defined());
}

TEST(SplitBackward, AChainOfLayers) {
  const auto x = leaf({3, 4}), w = leaf({4, 5}), b = leaf({5}), v = leaf({5, 2});
  expect_the_same(
      {x}, {w, b, v}, [&] { return Tensors{torch::addmm(b, x, w).tanh().matmul(v).relu()}; });
}

TEST(SplitBackward, AWeightThatIsUsedTwiceOneUseBehindTheOther) {
  const auto x = leaf({3, 4}), w = leaf({4, 4});
  expect_the_same(
      {x}, {w}, [&] { return Tensors{x.matmul(w).tanh().matmul(w.t()).sigmoid().matmul(w)}; });
}

TEST(SplitBackward, SeveralOutputsInputsAndWaysBetween) {
  const auto x = leaf({3, 4}), z = leaf({3, 4}), unused = leaf({2}), w = leaf({4, 4}),
             g = leaf({4});
  expect_the_same({x, unused, z}, {w, g}, [&] {
    const auto a = x.matmul(w), b = a * g + z, c = b.tanh() * a;
    return Tensors{c, b.sum(), z * 2, x, g.exp() * 3};
  });
}

TEST(SplitBackward, WeightsThatAreComputedThemselves) {
  const auto x = leaf({3, 4}), v = leaf({5, 4}), g = leaf({5, 1});
  expect_the_same({x}, {v, g}, [&] {
    const auto w = v * (g / v.norm(2, 1, true));
    return Tensors{x.matmul(w.t()).tanh().matmul(w)};
  });
}

TEST(SplitBackward, ConvolutionsNormsAndOperationsInPlace) {
  torch::manual_seed(1);
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(2, 3, 3).padding(1)), last(3, 2, 1);
  torch::nn::BatchNorm2d norm(3);
  for (torch::nn::Module* module : {(torch::nn::Module*)conv.get(),
                                    (torch::nn::Module*)last.get(),
                                    (torch::nn::Module*)norm.get()})
    module->to(torch::kDouble);
  const auto x = leaf({4, 2, 5, 5});
  Tensors parameters = conv->parameters();
  for (const auto& more : {norm->parameters(), last->parameters()})
    parameters.insert(parameters.end(), more.begin(), more.end());
  expect_the_same({x}, parameters, [&] {
    return Tensors{last(norm(conv(x)).relu_() + x.mean(1, true)).sigmoid_()};
  });
}

TEST(SplitBackward, WithoutInputsThatNeedAGradientAllIsLeftForTheSecondHalf) {
  const auto x = torch::randn({3, 4}, torch::kDouble), w = leaf({4, 2});
  expect_the_same({}, {w}, [&] { return Tensors{x.matmul(w)}; });
  InputGradients halves = backward_of_inputs({x.matmul(w).sum()}, {}, {x});
  EXPECT_FALSE(halves.gradients.at(0).defined());
  halves.weights.accumulate();
  EXPECT_TRUE(w.grad().defined());
}

TEST(SplitBackward, AnOutputWithoutAGradientCountsNothing) {
  const auto x = leaf({3, 4}), w = leaf({4, 2});
  const torch::Tensor out = x.matmul(w), unused = out.mean();
  InputGradients halves =
      backward_of_inputs({out, unused}, {torch::zeros_like(out), torch::Tensor()}, {x});
  halves.weights.accumulate();
  EXPECT_EQ(w.grad().abs().max().item<double>(), 0);
  const torch::Tensor again = x.matmul(w), mean = again.mean();
  parallel::backward_of_all({again, mean}, {torch::zeros_like(again), torch::Tensor()}, {x});
  EXPECT_EQ(w.grad().abs().max().item<double>(), 0);
}

/// What only the way to the inputs needs goes with the first half.
TEST(SplitBackward, FreesWhatOnlyTheInputsNeeded) {
  const auto x = leaf({3, 4}), w = leaf({4, 4});
  torch::Tensor out = x.matmul(w).tanh();
  const c10::weak_intrusive_ptr<c10::StorageImpl> saved_by_tanh(out.storage().getWeakStorageImpl());
  out = out * 2;
  EXPECT_FALSE(saved_by_tanh.expired());
  InputGradients halves = backward_of_inputs({out.sum()}, {}, {x});
  out.reset();
  EXPECT_TRUE(saved_by_tanh.expired());
  halves.weights.accumulate();
  EXPECT_TRUE(w.grad().defined());
}

}  // namespace
}  // namespace muster
