#include "muster/parallel/module/accumulator_hooks.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace muster::parallel {
namespace {

struct LambdaPreHook final : torch::autograd::FunctionPreHook {
  explicit LambdaPreHook(std::function<void()> hook) : run(std::move(hook)) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    run();
    return gradients;
  }
  std::function<void()> run;
};

}  // namespace

/// The variables hold their accumulators weakly, so these keep them.
struct AccumulatorHooks::Kept {
  using Accumulator =
      decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));
  std::vector<std::pair<Accumulator, uintptr_t>> all;
  std::vector<std::pair<Accumulator, const torch::autograd::FunctionPreHook*>> before;
};

AccumulatorHooks::AccumulatorHooks() : kept_(std::make_unique<Kept>()) {}

AccumulatorHooks::~AccumulatorHooks() {
  for (auto& [accumulator, key] : kept_->all) accumulator->del_post_hook(key);
  for (auto& [accumulator, hook] : kept_->before) {
    const auto is_ours = [ours = hook](const auto& other) { return other.get() == ours; };
    auto& hooks = accumulator->pre_hooks();
    hooks.erase(std::remove_if(hooks.begin(), hooks.end(), is_ours), hooks.end());
  }
}

void AccumulatorHooks::add(const at::Tensor& parameter, Hook hook) {
  using torch::autograd::variable_list;
  auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
  const auto key =
      accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [hook = std::move(hook)](const variable_list& outputs, const variable_list& inputs) {
            static const at::Tensor nothing;
            hook(inputs.empty() ? nothing : inputs[0]);  // no copy: who holds it is looked at
            return outputs;
          }));
  kept_->all.emplace_back(std::move(accumulator), key);
}

void AccumulatorHooks::add_before(const at::Tensor& parameter, std::function<void()> hook) {
  auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
  auto node = std::make_unique<LambdaPreHook>(std::move(hook));
  const torch::autograd::FunctionPreHook* added = node.get();
  accumulator->add_pre_hook(std::move(node));
  kept_->before.emplace_back(std::move(accumulator), added);
}

}  // namespace muster::parallel
