#include "muster/parallel/sharded/releasable_tensor.h"

#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

namespace muster::parallel {

ReleasableTensor::ReleasableTensor(at::Tensor tensor, const std::string& text)
    : tensor_(std::move(tensor)) {
  // An error's text stays with a storage, whether it throws changes hands: so this one gets the text,
  // and gives the state to a storage that keeps it for the times of release.
  c10::StorageImpl* storage = tensor_.storage().unsafeGetStorageImpl();
  counterpart_ = at::empty({0}, tensor_.options().requires_grad(false));
  c10::StorageImpl* other = counterpart_.storage().unsafeGetStorageImpl();
  storage->swap_data_ptr(*other);
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(text);
  storage->set_nbytes(other->nbytes());  // so that views are within its bounds
  storage->swap_data_ptr(*other);
}

void ReleasableTensor::release() {
  if (!is_there_) return;
  c10::StorageImpl* storage = tensor_.storage().unsafeGetStorageImpl();
  storage->swap_data_ptr(*counterpart_.storage().unsafeGetStorageImpl());
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
  c10::StorageImpl* storage = tensor_.storage().unsafeGetStorageImpl();
  storage->swap_data_ptr(*counterpart_.storage().unsafeGetStorageImpl());
  is_there_ = true;
}

}  // namespace muster::parallel
