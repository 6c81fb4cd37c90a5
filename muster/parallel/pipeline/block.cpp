#include "muster/parallel/pipeline/block.h"

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {

std::vector<Block> blocks_of(const torch::nn::Sequential& model) {
  std::vector<Block> blocks;
  for (torch::nn::AnyModule module : *model) {
    std::string name = std::to_string(blocks.size());
    const auto forward = [module, name](const Tensors& inputs) mutable -> Tensors {
      if (inputs.size() != 1)
        throw usage_error({.refused = concat("block ", name),
                           .rule = "a module of a Sequential takes one tensor",
                           .value = concat(inputs.size()),
                           .hint = "make blocks with parallel::block(), which take lists"});
      return {module.forward(inputs[0])};
    };
    blocks.push_back({name, module.ptr(), forward});
  }
  return blocks;
}

}  // namespace muster::parallel
