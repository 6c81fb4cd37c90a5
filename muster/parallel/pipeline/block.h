// The pieces of a model that a pipeline does not cut.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include "muster/parallel/module/tensors.h"
#include "muster/parallel/pipeline/micro_batches.h"

namespace muster::parallel {

/// One piece: what it makes of the tensors that come in. A pipeline is a list of these, each of
/// which takes what the one before gives; so a model may be cut between any two. What a later block
/// needs of an earlier one (a skip connection, a mask) goes through those between them: they take
/// it and give it on as it came, which costs nothing but the way between devices.
struct Block {
  std::string name;  ///< in errors, and before its parameters' names
  /// Whose parameters and buffers it uses; none: it has none.
  std::vector<std::shared_ptr<torch::nn::Module>> modules = {};
  std::function<Tensors(const Tensors&)> forward;
  /// Beside those of the modules, by name.
  NamedTensors parameters = {};
  /// What it draws random numbers from, where that is not LibTorch's default generator: a block
  /// that is checkpointed draws the same again.
  std::vector<at::Generator> generators = {};
};

/// Its parameters, or buffers, each once: "name.weight" of a module, "name.0.weight" where there
/// are several.
NamedTensors parameters_of(const Block& block);
NamedTensors buffers_of(const Block& block);

/// Moves all of it, as torch::nn::Module::to does: tensors stay the same objects.
void move_to(const Block& block, c10::Device device);

/// A block on a device while this lives, and where it was again: as a device that has failed allows.
class BlockOnDevice {
 public:
  /// `block` outlives it.
  BlockOnDevice(const Block& block, c10::Device device);
  ~BlockOnDevice();
  BlockOnDevice(const BlockOnDevice&) = delete;
  BlockOnDevice& operator=(const BlockOnDevice&) = delete;

 private:
  const Block& block_;
  std::optional<c10::Device> home_;
};

/// Throws a usage error for another number of tensors than one.
void require_one(const Tensors& inputs);

/// A block of a module, by its holder or shared pointer, whose forward takes a tensor each and
/// returns a tensor or a list of them.
template <class Module>
Block block(std::string name, Module module) {
  const auto call = [module](const Tensors& inputs) mutable -> Tensors {
    auto& of = *module;
    auto result = [&] {
      constexpr bool kIsSequential =
          std::derived_from<std::remove_cvref_t<decltype(of)>, torch::nn::SequentialImpl>;
      if constexpr (!kIsSequential && requires { of.forward(inputs); }) {
        return of.forward(inputs);
      } else {
        require_one(inputs);
        if constexpr (kIsSequential) {
          return of.template forward<at::Tensor>(inputs[0]);
        } else {
          return of.forward(inputs[0]);
        }
      }
    }();
    if constexpr (std::same_as<decltype(result), Tensors>) {
      return result;
    } else {
      return {std::move(result)};
    }
  };
  if constexpr (requires { module.ptr(); }) {
    return {std::move(name), {module.ptr()}, call};
  } else {
    return {std::move(name), {module}, call};
  }
}

/// The modules of a Sequential, each of which takes and gives one tensor; named as there: "0", "1",
/// ….
std::vector<Block> blocks_of(const torch::nn::Sequential& model);

/// The units of a module that is a row of them, see tensor::HasUnits::chain(); empty for another.
/// `generators`: what they draw random numbers from.
std::vector<Block> blocks_of_chain(torch::nn::Module& module,
                                   const std::vector<at::Generator>& generators = {});

}  // namespace muster::parallel
