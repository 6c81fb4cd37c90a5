#include "muster/train/checkpoints/model_state.h"

#include <cmath>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/dtype_name.h"

namespace muster::train {
namespace {

/// The strategies zero1 and zero2 may keep weights in bfloat16.
std::string hint_of(const at::Tensor& own, const at::Tensor& saved) {
  if (own.sizes() != saved.sizes()) return "";
  if (saved.scalar_type() == at::kBFloat16 && own.scalar_type() == at::kFloat)
    return "the run keeps its weights in bfloat16: go on with zero1, zero2 or fsdp, as in "
           "--strategy "
           "zero1:dtype=bfloat16";
  if (saved.scalar_type() == at::kFloat && own.scalar_type() == at::kBFloat16)
    return "the run keeps its weights in float32: leave dtype=bfloat16 away";
  return "";
}

}  // namespace

tensor::NamedTensorList model_state(const torch::nn::Module& module) {
  tensor::NamedTensorList state;
  std::unordered_set<const void*> seen;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    if (tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second)
      state.emplace_back(name, tensor);
  };
  for (const auto& item : module.named_parameters()) add(item.key(), item.value());
  for (const auto& item : module.named_buffers()) add(item.key(), item.value());
  return state;
}

std::vector<tensor::LoadedTensor> match_model_state(const torch::nn::Module& module,
                                                    const tensor::NamedTensorList& state) {
  const tensor::NamedTensorList own = model_state(module);
  std::unordered_map<std::string_view, const at::Tensor*> saved;
  for (const auto& [name, tensor] : state) saved.emplace(name, &tensor);
  std::vector<tensor::LoadedTensor> matched;
  for (const auto& [name, tensor] : own) {
    const auto found = saved.find(name);
    if (found == saved.end())
      throw usage_error({.refused = "the saved model has no tensor " + name,
                         .rule = "a checkpoint must be of the very model that it is loaded into"});
    const at::Tensor& value = *found->second;
    if (value.sizes() != tensor.sizes() || value.scalar_type() != tensor.scalar_type()) {
      throw usage_error(
          {.refused = "saved tensor " + name,
           .rule =
               concat("the model has ", tensor::dtype_name(tensor.scalar_type()), tensor.sizes()),
           .value = concat(tensor::dtype_name(value.scalar_type()), value.sizes()),
           .hint = hint_of(tensor, value)});
    }
    matched.push_back({name, tensor, value});
    saved.erase(found);
  }
  if (!saved.empty())
    throw usage_error({.refused = concat("the saved model has a tensor ", saved.begin()->first),
                       .rule = "the model has none of that name"});
  return matched;
}

void load_model_state(torch::nn::Module& module, const tensor::NamedTensorList& state) {
  const c10::NoGradGuard no_grad;
  for (auto& [name, own, saved] : match_model_state(module, state)) own.copy_(saved);
}

std::set<std::string> infinite_buffers(const torch::nn::Module& module) {
  const c10::NoGradGuard no_grad;
  std::set<std::string> names;
  for (const auto& item : module.named_buffers()) {
    const at::Tensor& buffer = item.value();
    if (buffer.defined() && buffer.is_floating_point() && buffer.isinf().any().item<bool>())
      names.insert(item.key());
  }
  return names;
}

std::optional<std::string> first_not_finite(const tensor::NamedTensorList& tensors,
                                            const std::set<std::string>& may_be_infinite) {
  const c10::NoGradGuard no_grad;
  const auto is_finite = [](const at::Tensor& tensor) {
    if (!tensor.is_floating_point() && !tensor.is_complex()) return true;
    // A sum with a NaN or an infinity in it is not finite, and in its own dtype it takes no memory.
    // Only large finite values have such a sum, too.
    if (tensor.is_floating_point()) {
      const auto sum = tensor.element_size() < 4 ? tensor.sum(at::kFloat) : tensor.sum();
      if (std::isfinite(sum.item<double>())) return true;
    }
    return tensor.isfinite().all().item<bool>();
  };
  for (const auto& [name, tensor] : tensors) {
    const bool sound =
        may_be_infinite.contains(name) ? !tensor.isnan().any().item<bool>() : is_finite(tensor);
    if (!sound) return name;
  }
  return std::nullopt;
}

tensor::NamedTensorList gather_rng_states(const distributed::ProcessGroup& group,
                                          const at::Generator& generator) {
  const at::Tensor own = generator.get_state();
  const at::Tensor all = group.all_gather(own.to(group.device())).cpu();
  tensor::NamedTensorList states;
  for (int64_t rank = 0; rank < group.world_size(); ++rank)
    states.emplace_back(concat("rank.", rank), all[rank].clone());
  return states;
}

void restore_generator(at::Generator& generator,
                       const Checkpoint& checkpoint,
                       const distributed::ProcessGroup& group,
                       int64_t seed,
                       bool fits) {
  for (const auto& [name, state] : checkpoint.rng) {
    if (fits && checkpoint.world_size == group.world_size() &&
        name == concat("rank.", group.rank()))
      return generator.set_state(state);
  }
  generator.set_current_seed(static_cast<uint64_t>(seed) +
                             (static_cast<uint64_t>(checkpoint.position.step) << 20) +
                             static_cast<uint64_t>(group.rank()));
}

}  // namespace muster::train
