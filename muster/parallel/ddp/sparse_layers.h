// Which parameters of a module will have sparse gradients.
#pragma once

#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace muster::parallel {

/// Names of the weights of all Embedding and EmbeddingBag layers that were made with sparse(true).
std::vector<std::string> sparse_gradient_names(const torch::nn::Module& module);

}  // namespace muster::parallel
