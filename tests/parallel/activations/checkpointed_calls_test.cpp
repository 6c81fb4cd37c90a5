// Activation checkpointing: what is called when, as Python's torch.utils.checkpoint does.
#include <functional>
#include <map>
#include <string>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/json.h"
#include "muster/parallel/activations/checkpointed.h"

#include "tests/support/golden.h"

namespace muster {
namespace {

using parallel::checkpointed;
using parallel::RecomputeOptions;
using Tensors = std::vector<torch::Tensor>;

// The cases of tests/golden/activation_checkpointing/make_golden.py, by name.

struct Traced {
  std::string trace;

  torch::Tensor plain(const torch::Tensor& x) {
    trace += 'a';
    const torch::Tensor y = x.exp();
    trace += 'b';
    const torch::Tensor z = y.sin();
    trace += 'c';
    torch::Tensor out = z + 1;
    trace += 'd';
    return out;
  }

  torch::Tensor run(const torch::Tensor& x, RecomputeOptions options = {}) {
    return checkpointed(
        std::move(options), [this](const torch::Tensor& input) { return plain(input); }, x);
  }

  torch::Tensor outer(const torch::Tensor& x) {
    return checkpointed(
        [this](const torch::Tensor& input) {
          trace += 'A';
          const torch::Tensor y = run(input * input);
          trace += 'B';
          torch::Tensor z = y * y;
          trace += 'C';
          return z;
        },
        x);
  }

  torch::Tensor outer_of_two(const torch::Tensor& x) {
    return checkpointed(
        [this](const torch::Tensor& input) {
          trace += 'A';
          const torch::Tensor y = run(input);
          trace += 'B';
          torch::Tensor z = run(y);
          trace += 'C';
          return z;
        },
        x);
  }

  torch::Tensor gradient_inside(const torch::Tensor& x) {
    return checkpointed(
        [this](const torch::Tensor& input) {
          trace += 'a';
          const torch::Tensor y = (input * input).sin();
          trace += 'b';
          const auto g = torch::autograd::grad({y.sum()}, {input}, {}, true, /*create_graph=*/true);
          trace += 'c';
          return (g[0] * y).exp();
        },
        x);
  }

  std::tuple<torch::Tensor, torch::Tensor> two_outputs(const torch::Tensor& x) {
    return checkpointed(
        [this](const torch::Tensor& input) {
          trace += 'a';
          const torch::Tensor y = input.exp();
          trace += 'b';
          return std::make_tuple(y.sin(), y.cos());
        },
        x);
  }

  void backward(const torch::Tensor& out, bool retain_graph = false) {
    trace += '|';
    out.sum().backward({}, retain_graph);
  }
};

torch::Tensor traced_numbers(bool requires_grad = true) {
  return torch::tensor({0.25, 0.5, 1.5}, torch::kDouble).requires_grad_(requires_grad);
}

const std::map<std::string, std::function<void(Traced&)>>& traced_cases() {
  static const std::map<std::string, std::function<void(Traced&)>> cases = {
      {"simple", [](Traced& t) { t.backward(t.run(traced_numbers())); }},
      {"without_early_stop",
       [](Traced& t) { t.backward(t.run(traced_numbers(), {.early_stop = false})); }},
      {"twice",
       [](Traced& t) {
         const auto out = t.run(traced_numbers());
         t.backward(out, true);
         t.backward(out);
       }},
      {"nested", [](Traced& t) { t.backward(t.outer(traced_numbers())); }},
      {"nested_twice",
       [](Traced& t) {
         const auto out = t.outer(traced_numbers());
         t.backward(out, true);
         t.backward(out);
       }},
      {"nested_two", [](Traced& t) { t.backward(t.outer_of_two(traced_numbers())); }},
      {"backward_of_backward",
       [](Traced& t) {
         const auto x = traced_numbers();
         const auto out = t.run(x);
         t.trace += '|';
         t.backward(torch::autograd::grad({out.sum()}, {x}, {}, true, true)[0]);
       }},
      {"without_gradients",
       [](Traced& t) {
         const torch::NoGradGuard no_grad;
         EXPECT_FALSE(t.run(traced_numbers()).requires_grad());
       }},
      {"only_a_parameter",
       [](Traced& t) {
         const auto w = traced_numbers();
         t.backward(checkpointed([&](const torch::Tensor& x) { return t.plain(x * w); },
                                 traced_numbers(false)));
         EXPECT_TRUE(w.grad().defined());
       }},
      {"outputs_apart",
       [](Traced& t) {
         const auto [one, other] = t.two_outputs(traced_numbers());
         t.backward(one, true);
         t.backward(other);
       }},
      {"outputs_together",
       [](Traced& t) {
         const auto [one, other] = t.two_outputs(traced_numbers());
         t.backward(one + other);
       }},
      {"gradient_in_function", [](Traced& t) { t.backward(t.gradient_inside(traced_numbers())); }},
      {"two_in_a_row", [](Traced& t) { t.backward(t.run(t.run(traced_numbers()))); }}};
  return cases;
}

TEST(Checkpointed, CallsWhatPythonsCheckpointCalls) {
  const Json traces = test::read_golden("activation_checkpointing").at("traces");
  ASSERT_EQ(traces.size(), traced_cases().size());
  for (const auto& [name, run] : traced_cases()) {
    Traced traced;
    run(traced);
    EXPECT_EQ(traced.trace, traces.at(name).get<std::string>()) << name;
  }
}

}  // namespace
}  // namespace muster
