#include "muster/train/model_state.h"

#include <unordered_set>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::train {

NamedTensorList model_state(const torch::nn::Module& module) {
  NamedTensorList state;
  std::unordered_set<const void*> seen;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    if (tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second)
      state.emplace_back(name, tensor);
  };
  for (const auto& item : module.named_parameters()) add(item.key(), item.value());
  for (const auto& item : module.named_buffers()) add(item.key(), item.value());
  return state;
}

void load_model_state(torch::nn::Module& module, const NamedTensorList& state) {
  const c10::NoGradGuard no_grad;
  const NamedTensorList own = model_state(module);
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (const auto& [name, tensor] : own) {
    const at::Tensor* found = nullptr;
    for (const auto& [key, value] : state) {
      if (key == name) found = &value;
    }
    if (found == nullptr)
      throw usage_error({.refused = "the saved model has no tensor " + name,
                         .rule = "it was saved from the same model"});
    if (found->sizes() != tensor.sizes() || found->scalar_type() != tensor.scalar_type()) {
      throw usage_error(
          {.refused = "saved tensor " + name,
           .rule = concat("the model has ", c10::toString(tensor.scalar_type()), tensor.sizes()),
           .value = concat(c10::toString(found->scalar_type()), found->sizes())});
    }
    copies.emplace_back(tensor, *found);
  }
  if (state.size() != own.size()) {
    for (const auto& [key, value] : state) {
      bool known = false;
      for (const auto& [name, tensor] : own) known |= name == key;
      if (!known)
        throw usage_error({.refused = "the saved model has a tensor " + key,
                           .rule = "the model knows every saved tensor"});
    }
  }
  for (auto& [to, from] : copies) to.copy_(from);
}

NamedTensorList gather_rng_states(const parallel::ProcessGroup& group) {
  const at::Tensor own = at::detail::getDefaultCPUGenerator().get_state();
  const at::Tensor all = group.all_gather(own.to(group.device())).cpu();
  NamedTensorList states;
  for (int64_t rank = 0; rank < group.world_size(); ++rank)
    states.emplace_back(concat("rank.", rank), all[rank].clone());
  return states;
}

bool load_rng_state(const NamedTensorList& states, int rank) {
  for (const auto& [name, state] : states) {
    if (name != concat("rank.", rank)) continue;
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    generator.set_state(state);
    return true;
  }
  return false;
}

}  // namespace muster::train
