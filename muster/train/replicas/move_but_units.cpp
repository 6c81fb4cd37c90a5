#include "muster/train/replicas/move_but_units.h"

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

#include "muster/tensor/unit_call.h"

namespace muster::train {
namespace {

/// The tensors of a module's units, without their memory while this lives.
class UnitsAside {
 public:
  explicit UnitsAside(torch::nn::Module& module) {
    for (const tensor::Unit& unit : tensor::units_of(module)) {
      for (const auto& tensors : {unit.parameters, unit.buffers})
        for (const at::Tensor& tensor : tensors) put_aside(tensor);
      if (unit.parameters.empty()) put_submodule_aside(module, unit.name + ".");
    }
  }
  ~UnitsAside() {
    for (auto& [tensor, data] : aside_) tensor.set_data(data);
  }
  UnitsAside(const UnitsAside&) = delete;

 private:
  /// Of a unit that names no tensors.
  void put_submodule_aside(torch::nn::Module& module, const std::string& prefix) {
    for (const auto& tensors : {module.named_parameters(), module.named_buffers()}) {
      for (const auto& item : tensors)
        if (item.key().starts_with(prefix)) put_aside(item.value());
    }
  }
  void put_aside(at::Tensor tensor) {
    if (!tensor.defined() || !seen_.insert(tensor.unsafeGetTensorImpl()).second) return;
    aside_.emplace_back(tensor, tensor.detach());
    tensor.set_data(at::empty({0}, tensor.options().requires_grad(false)));
  }

  std::unordered_set<const void*> seen_;  // a tied one is of several units
  std::vector<std::pair<at::Tensor, at::Tensor>> aside_;
};

}  // namespace

void move_but_units(Task& task, c10::Device device) {
  const UnitsAside aside(*task.module());
  task.move_to(device);
}

}  // namespace muster::train
