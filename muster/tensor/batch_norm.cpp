#include "muster/tensor/batch_norm.h"

#include <ATen/Context.h>
#include <ATen/ops/batch_norm.h>

namespace muster::tensor {
namespace {

thread_local bool batches_are_shared = false;

}  // namespace

SharedBatches::SharedBatches(bool are_shared) : before_(batches_are_shared) {
  batches_are_shared = are_shared;
}

SharedBatches::~SharedBatches() { batches_are_shared = before_; }

bool SharedBatches::hold() { return batches_are_shared; }

at::Tensor normalize(torch::nn::BatchNorm2dImpl& norm, const at::Tensor& input) {
  const bool has_one_value = input.dim() == 4 && input.numel() == input.size(1);
  if (!has_one_value || !norm.is_training() || !batches_are_shared) return norm.forward(input);
  // What its forward does behind the question.
  double momentum = norm.options.momentum().value_or(0.0);
  if (norm.num_batches_tracked.defined()) {
    norm.num_batches_tracked += 1;
    if (!norm.options.momentum()) momentum = 1.0 / norm.num_batches_tracked.item<double>();
  }
  return at::batch_norm(input,
                        norm.weight,
                        norm.bias,
                        norm.running_mean,
                        norm.running_var,
                        /*training=*/true,
                        momentum,
                        norm.options.eps(),
                        at::globalContext().userEnabledCuDNN());
}

}  // namespace muster::tensor
