#include "muster/testing/accelerator/kernel_call.h"

#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include <ATen/core/TensorBase.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

#include "muster/base/error.h"
#include "muster/testing/accelerator/allocators.h"
#include "muster/testing/accelerator/machine.h"

namespace muster::testing {
namespace {

void refuse_layout(const std::string& op, const at::Tensor& tensor) {
  if (tensor.layout() == c10::kStrided && tensor.has_storage()) return;
  throw usage_error({.refused = op + " on a fake device",
                     .rule = "fake devices have dense tensors only",
                     .value = c10::str(tensor.layout()),
                     .hint = "to_dense(), or the CPU"});
}

/// The same tensor over another storage, of another kind of device. An inference tensor or not, as
/// `tensor` is: in inference mode a parameter and its views have versions all the same.
at::Tensor relabelled(const at::Tensor& tensor, c10::Storage storage, c10::DispatchKey key) {
  std::optional<c10::InferenceMode> mode;
  if (tensor.is_inference() != c10::InferenceMode::is_enabled())
    mode.emplace(tensor.is_inference());
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(key), tensor.dtype());
  c10::TensorImpl* const impl = result.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  if (tensor.is_conj()) result._set_conj(true);
  if (tensor.is_neg()) result._set_neg(true);
  return result;
}

bool same(const c10::Storage& a, const c10::Storage& b) {
  return a.unsafeGetStorageImpl() == b.unsafeGetStorageImpl();
}

}  // namespace

void KernelCall::check_device(const at::Tensor& tensor, bool cpu_allowed) {
  if (!tensor.defined()) return;
  if (tensor.is_privateuseone()) {
    refuse_layout(op_, tensor);
    if (device_ < 0) device_ = tensor.device().index();
    if (tensor.device().index() == device_) return;
  } else if (tensor.is_cpu() && (tensor.dim() == 0 || cpu_allowed)) {
    return;
  }
  const std::string ours = device_ < 0 ? "fake" : c10::Device(kFake, device_).str();
  TORCH_CHECK(false,
              "Expected all tensors to be on the same device, but found at least two devices, ",
              ours,
              " and ",
              tensor.device().str(),
              "! (in ",
              op_,
              ")");
}

c10::Storage KernelCall::on_cpu(const c10::Storage& storage) {
  for (const SameStorage& known : storages_)
    if (same(known.fake, storage)) return known.cpu;
  char* const start = kernel_address(storage.data());
  auto keeper = std::make_unique<c10::Storage>(storage);
  c10::DataPtr bytes(
      start,
      keeper.release(),
      [](void* kept) { delete static_cast<c10::Storage*>(kept); },
      c10::Device(c10::kCPU));
  c10::Storage cpu(c10::Storage::use_byte_size_t{},
                   storage.nbytes(),
                   std::move(bytes),
                   c10::GetAllocator(c10::kCPU),
                   true);
  storages_.push_back({storage, cpu, start, false});
  return cpu;
}

at::Tensor KernelCall::on_cpu(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_privateuseone()) return tensor;
  for (const SameTensor& known : tensors_)
    if (known.fake.is_same(tensor)) return known.cpu;
  at::Tensor cpu = relabelled(tensor, on_cpu(tensor.storage()), c10::DispatchKey::CPU);
  tensors_.push_back({tensor, cpu});
  return cpu;
}

c10::DataPtr KernelCall::shown_memory(const c10::Storage& storage) const {
  const c10::Device device(kFake, device_);
  if (storage.nbytes() == 0) return {nullptr, device};
  c10::DataPtr& memory = storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  if (auto shown = shown_instead(memory, device_)) return std::move(*shown);
  const c10::DeviceGuard guard(device);  // another thread took it, or a library, or it is a number
  c10::DataPtr fresh = device_allocator()->allocate(storage.nbytes());
  std::memcpy(kernel_address(fresh.get()), storage.data(), storage.nbytes());
  return fresh;
}

c10::Storage KernelCall::on_device(const c10::Storage& storage) {
  for (const SameStorage& known : storages_)
    if (same(known.cpu, storage)) return known.fake;
  c10::Storage fake(c10::Storage::use_byte_size_t{},
                    storage.nbytes(),
                    shown_memory(storage),
                    device_allocator(),
                    true);
  storages_.push_back({fake, storage, nullptr, true});
  return fake;
}

bool KernelCall::is_fresh(const at::Tensor& fake) const {
  for (const SameStorage& known : storages_)
    if (same(known.fake, fake.storage())) return known.fresh;
  return false;
}

at::Tensor KernelCall::on_device(const at::Tensor& result) {
  if (!result.defined() || !result.is_cpu()) return result;
  for (const SameTensor& known : tensors_)
    if (known.cpu.is_same(result)) return known.fake;
  if (results_on_cpu_) return result;
  refuse_layout(op_, result);
  at::Tensor fake = relabelled(result, on_device(result.storage()), c10::DispatchKey::PrivateUse1);
  tensors_.push_back({fake, result});
  if (is_fresh(fake)) made_.push_back(fake);
  return fake;
}

void KernelCall::hand_on_changes() {
  for (SameStorage& known : storages_) {
    c10::StorageImpl* const fake = known.fake.unsafeGetStorageImpl();
    const bool moved = known.cpu.data() != known.address;
    if (known.fresh || (!moved && known.cpu.nbytes() == fake->nbytes())) continue;
    if (moved) fake->set_data_ptr_noswap(shown_memory(known.cpu));
    known.fresh = moved;
    fake->set_nbytes(known.cpu.nbytes());
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {  // on_device() may add storages, not tensors
    const SameTensor& known = tensors_[i];
    c10::TensorImpl* const fake = known.fake.unsafeGetTensorImpl();
    const c10::Storage now = on_device(known.cpu.storage());
    if (!same(now, known.fake.storage())) fake->set_storage_keep_dtype(now);
    if (known.cpu.sizes() != known.fake.sizes() || known.cpu.strides() != known.fake.strides() ||
        known.cpu.storage_offset() != known.fake.storage_offset()) {
      fake->set_sizes_and_strides(
          known.cpu.sizes(), known.cpu.strides(), known.cpu.storage_offset());
    }
    if (is_fresh(known.fake)) made_.push_back(known.fake);
  }
}

}  // namespace muster::testing
