#include "muster/parallel/pipeline/block.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/unit_call.h"

namespace muster::parallel {
namespace {

void add_once(NamedTensors& found, std::string name, const at::Tensor& tensor) {
  for (const auto& other : found)
    if (other.second.is_same(tensor)) return;
  found.emplace_back(std::move(name), tensor);
}

template <class Named>
NamedTensors of_modules(const Block& block, Named&& named) {
  NamedTensors found;
  for (size_t i = 0; i < block.modules.size(); ++i) {
    const std::string prefix =
        block.modules.size() == 1 ? concat(block.name, '.') : concat(block.name, '.', i, '.');
    for (const auto& entry : named(*block.modules[i]))
      add_once(found, prefix + entry.key(), entry.value());
  }
  return found;
}

}  // namespace

NamedTensors parameters_of(const Block& block) {
  NamedTensors found =
      of_modules(block, [](const torch::nn::Module& module) { return module.named_parameters(); });
  for (const auto& [name, tensor] : block.parameters) add_once(found, name, tensor);
  return found;
}

NamedTensors buffers_of(const Block& block) {
  return of_modules(block, [](const torch::nn::Module& module) { return module.named_buffers(); });
}

void move_to(const Block& block, c10::Device device) {
  for (const auto& module : block.modules) module->to(device);
  for (const auto& [name, tensor] : block.parameters)
    at::Tensor(tensor).set_data(tensor.detach().to(device));
}

BlockOnDevice::BlockOnDevice(const Block& block, c10::Device device) : block_(block) {
  NamedTensors tensors = parameters_of(block);
  if (tensors.empty()) tensors = buffers_of(block);
  if (!tensors.empty()) home_ = tensors[0].second.device();
  move_to(block, device);
}

BlockOnDevice::~BlockOnDevice() {
  try {
    if (home_) move_to(block_, *home_);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    // A device that has failed gives nothing back; what it failed with is on its way already.
  }
}

void require_one(const Tensors& inputs) {
  if (inputs.size() == 1) return;
  throw usage_error({.refused = "what comes into a block",
                     .rule = "its module takes one tensor",
                     .value = concat(inputs.size(), " tensors"),
                     .hint = "give it a forward(const std::vector<at::Tensor>&), or the Block a "
                             "function that picks"});
}

std::vector<Block> blocks_of(const torch::nn::Sequential& model) {
  std::vector<Block> blocks;
  for (torch::nn::AnyModule module : *model) {
    std::string name = std::to_string(blocks.size());
    const auto forward = [module](const Tensors& inputs) mutable -> Tensors {
      require_one(inputs);
      return {module.forward(inputs[0])};
    };
    blocks.push_back({name, {module.ptr()}, forward});
  }
  return blocks;
}

std::vector<Block> blocks_of_chain(torch::nn::Module& module,
                                   const std::vector<at::Generator>& generators) {
  std::vector<Block> blocks;
  for (tensor::ChainedUnit& unit : tensor::chain_of(module)) {
    blocks.push_back({.name = std::move(unit.name),
                      .modules = std::move(unit.modules),
                      .forward = std::move(unit.forward),
                      .parameters = std::move(unit.parameters),
                      .generators = generators});
  }
  return blocks;
}

}  // namespace muster::parallel
