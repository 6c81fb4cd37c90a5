#include <string>
#include <string_view>

#include <torch/nn/module.h>

#include "muster/memory/report/explain.h"
#include "muster/memory/tracker/owned_tensors.h"

namespace muster::memory {
namespace {

std::string layer_part(std::string_view name) {
  const size_t end = name.rfind('.');
  return end == std::string_view::npos ? "(model)" : std::string(name.substr(0, end));
}

}  // namespace

std::vector<OwnedTensor> owned_tensors(const torch::nn::Module& module,
                                       const torch::optim::Optimizer* optimizer) {
  std::vector<OwnedTensor> all;
  for (const auto& named : module.named_parameters()) {
    const std::string layer = layer_part(named.key());
    all.push_back({named.value(), Owner::kParameter, layer});
    if (named.value().grad().defined())
      all.push_back({named.value().grad(), Owner::kGradient, layer});
  }
  for (const auto& named : module.named_buffers())
    all.push_back({named.value(), Owner::kBuffer, layer_part(named.key())});
  if (optimizer == nullptr) return all;
  for (const at::Tensor& tensor : state_tensors(*optimizer))
    all.push_back({tensor, Owner::kOptimizerState, ""});
  return all;
}

}  // namespace muster::memory
