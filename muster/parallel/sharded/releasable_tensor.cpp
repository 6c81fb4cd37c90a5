#include "muster/parallel/sharded/releasable_tensor.h"

#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

namespace muster::parallel {
namespace {

// A storage that throws is one for good in LibTorch 2.11, where none can change places with
// another. There a released one has no memory, and nothing that would say so. Templates, so that
// the name that is not there is not looked up.
template <class Storage>
constexpr bool kSwaps = requires(Storage& storage) {
  storage.swap_data_ptr(storage);
};

template <class Storage>
void refuse_access(Storage& storage, const std::string& text) {
  if constexpr (kSwaps<Storage>) storage.release_data_and_set_meta_custom_data_ptr_error_msg_(text);
}

template <class Storage>
void swap_memory(Storage& one, Storage& other) {
  if constexpr (kSwaps<Storage>) {
    one.swap_data_ptr(other);
  } else {
    at::DataPtr data = std::move(one._mutable_data_ptr_no_checks());
    one.set_data_ptr_noswap(std::move(other._mutable_data_ptr_no_checks()));
    other.set_data_ptr_noswap(std::move(data));
  }
}

c10::StorageImpl& storage_of(const at::Tensor& tensor) {
  return *tensor.storage().unsafeGetStorageImpl();
}

}  // namespace

bool ReleasableTensor::has_error() { return kSwaps<c10::StorageImpl>; }

ReleasableTensor::ReleasableTensor(at::Tensor tensor, const std::string& text)
    : tensor_(std::move(tensor)) {
  // An error's text stays with a storage, whether it throws changes hands: so this one gets the
  // text, and gives the state to a storage that keeps it for the times of release.
  counterpart_ = at::empty({0}, tensor_.options().requires_grad(false));
  c10::StorageImpl& storage = storage_of(tensor_);
  const size_t bytes = storage.nbytes();
  swap_memory(storage, storage_of(counterpart_));
  refuse_access(storage, text);
  storage.set_nbytes(bytes);  // so that views are within its bounds
  swap_memory(storage, storage_of(counterpart_));
  storage.set_nbytes(bytes);
}

void ReleasableTensor::release() {
  if (!is_there_) return;
  swap_memory(storage_of(tensor_), storage_of(counterpart_));
  counterpart_ = at::Tensor();  // with the memory
  is_there_ = false;
}

at::Tensor ReleasableTensor::fresh() const {
  // Other threads write to it, which an inference tensor refuses.
  const c10::InferenceMode no_inference(false);
  return at::empty(tensor_.sizes(), tensor_.options().requires_grad(false));
}

void ReleasableTensor::put_back(at::Tensor filled) {
  if (is_there_) return;
  counterpart_ = std::move(filled);
  swap_memory(storage_of(tensor_), storage_of(counterpart_));
  is_there_ = true;
}

}  // namespace muster::parallel
