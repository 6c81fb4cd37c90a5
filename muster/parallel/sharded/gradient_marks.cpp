#include "muster/parallel/sharded/gradient_marks.h"

#include <algorithm>

#include <ATen/ops/empty.h>

namespace muster::parallel {

bool is_gradient_mark(const at::Tensor& gradient) {
  return gradient.has_storage() && gradient.numel() > 0 && gradient.storage().nbytes() == 0;
}

GradientMarks::GradientMarks(const std::vector<at::Tensor>& tensors, const std::string& text) {
  for (const at::Tensor& tensor : tensors) {
    at::Tensor mark = at::empty({0}, tensor.options().requires_grad(false));
    mark.unsafeGetTensorImpl()->set_sizes_contiguous(tensor.sizes());
    c10::StorageImpl* storage = mark.storage().unsafeGetStorageImpl();
    storage->release_data_and_set_meta_custom_data_ptr_error_msg_(text);
    storage->set_nbytes(0);
    marks_.emplace_back(tensor, std::move(mark));
  }
  put();
}

void GradientMarks::put() const {
  for (const auto& [tensor, mark] : marks_) tensor.mutable_grad() = mark;
}

void GradientMarks::lift() const {
  for (const auto& [tensor, mark] : marks_) {
    if (tensor.grad().is_same(mark)) tensor.mutable_grad() = at::Tensor();
  }
}

size_t GradientMarks::gone() const {
  return static_cast<size_t>(std::count_if(
      marks_.begin(), marks_.end(), [](const auto& m) { return !m.first.grad().defined(); }));
}

}  // namespace muster::parallel
