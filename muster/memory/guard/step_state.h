// What a forward and a backward change, taken before them and put back when they fail. Private to the room.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

namespace muster::memory {

/// Gradients, buffers and generators of one module. One thread.
class StepState {
 public:
  /// `module` outlives this. No generators: the default ones of the CPU and of the module's devices.
  StepState(torch::nn::Module& module, std::vector<at::Generator> generators);

  /// As it is now. Gradients that are defined are copied to host memory, so that a step that begins
  /// without any takes no memory here; buffers are copied where they are, to memory that is kept.
  void capture();
  /// As it was: what was undefined is so again, the same tensors have their numbers again.
  void put_back();

  /// Since capture(): the name of a buffer that is another one, or "".
  std::string changed_buffer() const;
  /// Since capture(): a generator has been drawn from.
  bool has_drawn() const;

  /// The devices of parameters and buffers, without the CPU.
  std::vector<c10::Device> devices() const;

 private:
  struct Gradient {
    at::Tensor parameter;
    at::Tensor gradient;  // the tensor itself; undefined: there was none
    at::Tensor saved;
  };
  struct Buffer {
    std::string name;
    at::Tensor own, saved;
  };
  struct Draws {
    at::Generator generator;
    at::Tensor state;
  };

  void take_gradients();
  void take_buffers();
  void take_generators();

  torch::nn::Module& module_;
  std::vector<at::Generator> generators_;
  std::vector<Gradient> gradients_;
  std::vector<Buffer> buffers_;
  std::vector<Draws> draws_;
  bool is_taken_ = false;
};

}  // namespace muster::memory
