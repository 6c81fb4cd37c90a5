#include "muster/optim/optimizer_state.h"

#include <algorithm>

#include <ATen/Parallel.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::optim::detail {
namespace {

// Note [Layout of gradients]
// ATen's fused CPU kernels walk parameter, gradient and state as flat arrays and never look at
// strides, so a gradient that is expanded (that of a sum: stride 0) or transposed is read wrongly,
// past its end even; Python's fused=True does that in 2.15. A gradient whose strides are not its
// parameter's is therefore copied first. State is made with the parameter's strides. A parameter
// that has gaps or overlaps has no flat form and is refused.
at::Tensor laid_out_as(const at::Tensor& parameter, const at::Tensor& gradient) {
  if (gradient.strides() == parameter.strides()) return gradient;
  return at::empty_like(parameter).copy_(gradient);
}

// Numbers per part: with four lists of float32 2 MB, about a core's second-level cache.
constexpr int64_t kPart = 128 * 1024;

/// Numbers `begin` to `end` of a dense tensor, in the order of its memory.
at::Tensor flat_part(const at::Tensor& tensor, int64_t begin, int64_t end) {
  return at::as_strided(tensor, {end - begin}, {1}, tensor.storage_offset() + begin);
}

}  // namespace

void in_parts(const TensorLists& lists, const std::function<void(const TensorLists&)>& work) {
  if (lists[0].empty()) return;
  if (!lists[0][0].is_cpu()) return work(lists);
  // Each kernel ends with all threads waiting for each other. That costs more than the cache saves
  // where other programs want the cores too, so several threads get long tensors whole.
  const bool cuts = at::get_num_threads() == 1;
  TensorLists part(lists.size());
  int64_t gathered = 0;
  const auto flush = [&] {
    if (!part[0].empty()) work(part);
    for (auto& list : part) list.clear();
    gathered = 0;
  };
  for (size_t k = 0; k < lists[0].size(); ++k) {
    const int64_t count = lists[0][k].numel();
    if (gathered + count > kPart) flush();
    const int64_t length = cuts ? std::min(count, kPart) : count;
    for (int64_t begin = 0; begin < count; begin += length) {
      const int64_t end = std::min(begin + length, count);
      for (size_t i = 0; i < lists.size(); ++i)
        part[i].push_back(length == count ? lists[i][k] : flat_part(lists[i][k], begin, end));
      gathered += end - begin;
      if (gathered >= kPart) flush();
    }
  }
  flush();
}

ReadyList ready(const tensor::NamedTensorList& parameters) {
  ReadyList out;
  out.indices.reserve(parameters.size());
  out.parameters.reserve(parameters.size());
  out.gradients.reserve(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, parameter] = parameters[i];
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (gradient.layout() != at::kStrided || !parameter.is_non_overlapping_and_dense()) {
      throw usage_error({.refused = "optimizer step for parameter " + name,
                         .rule = "parameters and gradients are dense, without gaps or overlap",
                         .value = concat("parameter with strides ",
                                         parameter.strides(),
                                         ", gradient with layout ",
                                         gradient.layout())});
    }
    out.indices.push_back(i);
    out.parameters.push_back(parameter);
    out.gradients.push_back(laid_out_as(parameter, gradient));
  }
  return out;
}

StateIndex index_state(const tensor::TensorFile& file,
                       const tensor::NamedTensorList& parameters,
                       const std::vector<std::string_view>& kinds) {
  std::map<std::string, bool, std::less<>> known;
  for (const auto& [name, parameter] : parameters) {
    for (const std::string_view kind : kinds) known.emplace(concat(kind, "/", name), true);
  }
  StateIndex state;
  for (const auto& [name, tensor] : file.tensors) {
    if (!known.contains(name)) {
      std::vector<std::string> names;
      for (const auto& [key, unused] : known) names.push_back(key);
      throw usage_error({.refused = "optimizer state " + name,
                         .rule = "each tensor of the state belongs to a parameter",
                         .hint = suggestion(name, names)});
    }
    state.emplace(name, tensor);
  }
  return state;
}

std::vector<at::Tensor> Slots::of(const ReadyList& ready) {
  std::vector<at::Tensor> out;
  out.reserve(ready.indices.size());
  for (size_t k = 0; k < ready.indices.size(); ++k) {
    at::Tensor& tensor = tensors_[ready.indices[k]];
    if (!tensor.defined()) tensor = at::zeros_like(ready.parameters[k]);
    out.push_back(tensor);
  }
  return out;
}

void Slots::save(const tensor::NamedTensorList& parameters, tensor::NamedTensorList& into) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].defined()) into.emplace_back(name_ + "/" + parameters[i].first, tensors_[i]);
  }
}

void Slots::load(const tensor::NamedTensorList& parameters, const StateIndex& state) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto& [name, parameter] = parameters[i];
    const auto found = state.find(name_ + "/" + name);
    if (found == state.end()) {
      tensors_[i] = at::Tensor();
      continue;
    }
    if (found->second.sizes() != parameter.sizes()) {
      throw usage_error({.refused = "optimizer state " + found->first,
                         .rule = concat("its shape is that of the parameter, ", parameter.sizes()),
                         .value = concat(found->second.sizes())});
    }
    // A copy: the state changes in place, and the file's tensors are the caller's.
    tensors_[i] = at::empty_like(parameter.detach()).copy_(found->second);
  }
}

}  // namespace muster::optim::detail
