// Activation checkpointing: less memory between forward and backward, for a second forward.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include "muster/parallel/activations/recomputation.h"

namespace muster::parallel {

/// Calls a function, or the forward of a module (by its holder or shared pointer).
template <class Function, class... Inputs>
auto call_or_forward(Function& function, Inputs&... inputs) {
  if constexpr (requires { function->forward(inputs...); }) {
    return function->forward(inputs...);
  } else {
    return function(inputs...);
  }
}

/// Where the tensors of a call's inputs are: tensors, optional ones, and lists of them.
template <class Input, class Visitor>
void visit_tensors(Input& input, Visitor&& visit) {
  if constexpr (std::same_as<Input, at::Tensor>) {
    visit(input);
  } else if constexpr (requires { input.has_value(), *input; }) {
    if (input.has_value()) visit_tensors(*input, visit);
  } else if constexpr (requires { std::tuple_size<Input>::value; }) {
    std::apply([&](auto&... parts) { (visit_tensors(parts, visit), ...); }, input);
  } else if constexpr (requires {
                         requires std::same_as<typename Input::value_type, at::Tensor>;
                       }) {
    for (at::Tensor& tensor : input) visit(tensor);
  }
}

/// function(inputs...), of which nothing is kept for backward but the inputs: backward runs it
/// again, as torch.utils.checkpoint(use_reentrant=False) does. See Note [Recomputation].
///
/// `function` is anything that can be called, or a module (holder or shared pointer), whose buffers
/// the second run leaves as they are: batch norms count a batch once. It is moved to where backward
/// finds it, and with it what it captures; inputs are copied (tensors share their numbers). It may
/// return anything, save what it likes, use parameters, be nested, and be called in any thread;
/// inputs need no gradients for its parameters to get theirs. Bits are as without: random numbers,
/// autocast and dispatch are those of the first run.
///
/// In backward: a usage error where the second run saves other tensors than the first (shape,
/// dtype, device, number), or where an input was changed in place meanwhile; what the function
/// throws. What it does besides computing happens twice. Without gradients (no_grad, inference
/// mode) it is a plain call.
template <class Function, class... Inputs>
auto checkpointed(RecomputeOptions options, Function function, Inputs... inputs) {
  if (!c10::GradMode::is_enabled()) return call_or_forward(function, inputs...);
  if constexpr (requires { function->buffers(); }) {
    for (at::Tensor& buffer : function->buffers()) options.buffers.push_back(std::move(buffer));
  }
  const auto shared = std::make_shared<Function>(std::move(function));
  std::tuple<Inputs...> places(inputs...);
  std::vector<at::Tensor> tensors;
  visit_tensors(
      places, [&](at::Tensor& tensor) { tensors.push_back(std::exchange(tensor, at::Tensor())); });
  const CheckpointedRun run(
      [shared, places = std::move(places)](const std::vector<at::Tensor>& again) {
        std::tuple<Inputs...> filled = places;
        size_t next = 0;
        visit_tensors(filled, [&](at::Tensor& tensor) { tensor = again[next++]; });
        std::apply([&](auto&... parts) { (void)call_or_forward(*shared, parts...); }, filled);
      },
      tensors,
      std::move(options));
  return call_or_forward(*shared, inputs...);
}

template <class Function, class... Inputs>
requires(!std::same_as<Function, RecomputeOptions>) auto checkpointed(Function function,
                                                                      Inputs... inputs) {
  return checkpointed(RecomputeOptions{}, std::move(function), std::move(inputs)...);
}

}  // namespace muster::parallel
