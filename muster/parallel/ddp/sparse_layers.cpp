#include "muster/parallel/ddp/sparse_layers.h"

#include <torch/nn/modules/embedding.h>

namespace muster::parallel {

std::vector<std::string> sparse_gradient_names(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& item : module.named_modules(std::string(), /*include_self=*/true)) {
    const auto* embedding = item.value()->as<torch::nn::EmbeddingImpl>();
    const auto* bag = item.value()->as<torch::nn::EmbeddingBagImpl>();
    const bool sparse = (embedding != nullptr && embedding->options.sparse()) ||
                        (bag != nullptr && bag->options.sparse());
    if (sparse) names.push_back(item.key().empty() ? "weight" : item.key() + ".weight");
  }
  return names;
}

}  // namespace muster::parallel
