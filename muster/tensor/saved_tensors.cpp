#include "muster/tensor/saved_tensors.h"

#include <atomic>
#include <mutex>
#include <utility>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/dtype_name.h"
#include "muster/tensor/engine_in_front.h"

namespace muster::tensor {
namespace {

using torch::autograd::Engine;
using torch::autograd::SavedVariableHooks;

thread_local SavedTensorHooks* innermost_hooks = nullptr;

/// One saved tensor, as LibTorch sees it.
class HookedVariable : public SavedVariableHooks {
 public:
  explicit HookedVariable(SavedTensorHooks& hooks) : hooks_(hooks) {}
  void call_pack_hook(const at::Tensor& tensor) override { saved_ = hooks_.pack(tensor); }
  at::Tensor call_unpack_hook() override { return saved_->unpack(); }

 private:
  SavedTensorHooks& hooks_;  // not after the call that packs
  std::unique_ptr<SavedTensor> saved_;
};

class HookedEngine : public EngineInFront {
 public:
  using EngineInFront::EngineInFront;

  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (innermost_hooks != nullptr) return std::make_unique<HookedVariable>(*innermost_hooks);
    return EngineInFront::get_default_saved_variable_hooks();
  }
};

std::atomic<HookedEngine*> installed_engine{nullptr};

Engine& installed() { return *installed_engine.load(std::memory_order_acquire); }

// Engines are never freed: whoever asks for the default one keeps no count.
void install_engine() {
  if (&Engine::get_default_engine() == installed_engine.load(std::memory_order_acquire)) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  Engine& behind = Engine::get_default_engine();
  if (&behind == installed_engine.load(std::memory_order_acquire)) return;
  installed_engine.store(new HookedEngine(behind), std::memory_order_release);
  torch::autograd::set_default_engine_stub(&installed);
}

}  // namespace

SavedTensorScope::SavedTensorScope(SavedTensorHooks& hooks) : outer_(innermost_hooks) {
  install_engine();
  innermost_hooks = &hooks;
}

SavedTensorScope::~SavedTensorScope() { innermost_hooks = outer_; }

UnchangedTensor::UnchangedTensor(const at::Tensor& tensor)
    : tensor_(tensor.detach()), version_(static_cast<int64_t>(tensor._version())) {}

const at::Tensor& UnchangedTensor::get() const {
  if (static_cast<int64_t>(tensor_._version()) == version_) return tensor_;
  throw usage_error(
      {.refused = "backward",
       .rule = "a tensor that it needs is not changed in place after the operation that saved it",
       .value = concat(dtype_name(tensor_.scalar_type()),
                       tensor_.sizes(),
                       " is at version ",
                       tensor_._version(),
                       " instead of ",
                       version_)});
}

bool is_of_parameter(const at::Tensor& tensor) {
  const at::Tensor owner = tensor.is_view() ? at::Tensor(tensor._base()) : tensor;
  return owner.is_leaf() && owner.requires_grad();
}

}  // namespace muster::tensor
