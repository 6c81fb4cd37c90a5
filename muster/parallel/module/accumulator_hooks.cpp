#include "muster/parallel/module/accumulator_hooks.h"

#include <cstdint>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace muster::parallel {

/// The variables hold their accumulators weakly, so these keep them.
struct AccumulatorHooks::Kept {
  using Accumulator =
      decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));
  std::vector<std::pair<Accumulator, uintptr_t>> all;
};

AccumulatorHooks::AccumulatorHooks() : kept_(std::make_unique<Kept>()) {}

AccumulatorHooks::~AccumulatorHooks() {
  for (auto& [accumulator, key] : kept_->all) accumulator->del_post_hook(key);
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

}  // namespace muster::parallel
