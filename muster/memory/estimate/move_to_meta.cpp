#include "muster/memory/estimate/move_to_meta.h"

#include <map>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/nn/module.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::memory {
namespace {

/// The storages that took the place of others.
using NewStorages = std::map<const c10::StorageImpl*, c10::Storage>;

void move_tensor(const std::string& name, at::Tensor tensor, NewStorages& storages) {
  if (!tensor.defined() || tensor.is_meta()) return;
  if (tensor.layout() != c10::kStrided || !tensor.has_storage()) {
    throw usage_error({.refused = concat("an estimate on the meta device: ", name),
                       .rule = "tensors of a module are dense"});
  }
  tensor.mutable_grad() = at::Tensor();
  const c10::Storage old = tensor.storage();
  const auto bytes = static_cast<int64_t>(old.nbytes());
  c10::Storage& storage = storages[old.unsafeGetStorageImpl()];
  if (!storage) storage = at::empty({bytes}, at::device(c10::kMeta).dtype(at::kByte)).storage();
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  impl->_change_backend_component_keys(c10::Device(c10::kMeta));
  impl->set_storage_keep_dtype(storage);
}

}  // namespace

void move_to_meta(torch::nn::Module& module) {
  NewStorages storages;
  for (const auto& item : module.named_parameters())
    move_tensor(item.key(), item.value(), storages);
  for (const auto& item : module.named_buffers()) move_tensor(item.key(), item.value(), storages);
}

}  // namespace muster::memory
