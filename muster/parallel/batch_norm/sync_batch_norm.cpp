#include "muster/parallel/batch_norm/sync_batch_norm.h"

#include <ostream>

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/batch_norm/batch_statistics.h"
#include "muster/tensor/batch_norm.h"

namespace muster::parallel {
namespace {

BatchNormTensors fresh(const torch::nn::BatchNormOptions& options) {
  const int64_t channels = options.num_features();
  BatchNormTensors tensors;
  if (options.affine()) {
    tensors.weight = at::ones({channels}).requires_grad_();
    tensors.bias = at::zeros({channels}).requires_grad_();
  }
  if (options.track_running_stats()) {
    tensors.running_mean = at::zeros({channels});
    tensors.running_var = at::ones({channels});
    tensors.num_batches_tracked = at::scalar_tensor(0, at::kLong);
  }
  return tensors;
}

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& options,
                                     std::optional<distributed::ProcessGroup> group)
    : SyncBatchNormImpl(options, std::move(group), fresh(options)) {}

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& options,
                                     std::optional<distributed::ProcessGroup> group,
                                     BatchNormTensors tensors)
    : torch::nn::Module("SyncBatchNorm"),
      BatchNormTensors(std::move(tensors)),
      options(options),
      group_(std::move(group)) {
  register_parameter("weight", weight, weight.defined() && weight.requires_grad());
  register_parameter("bias", bias, bias.defined() && bias.requires_grad());
  register_buffer("running_mean", running_mean);
  register_buffer("running_var", running_var);
  register_buffer("num_batches_tracked", num_batches_tracked);
}

void SyncBatchNormImpl::check(const at::Tensor& input) const {
  if (input.dim() >= 2 && input.size(1) == options.num_features() && options.num_features() > 0)
    return;
  throw usage_error({.refused = "input of SyncBatchNorm",
                     .rule = concat("its shape is [N, ", options.num_features(), ", …]"),
                     .value = c10::str(input.sizes())});
}

double SyncBatchNormImpl::next_momentum() {
  if (!is_training() || !num_batches_tracked.defined()) return options.momentum().value_or(0.0);
  num_batches_tracked += 1;
  // Without momentum: the mean over all batches so far.
  return options.momentum() ? *options.momentum() : 1.0 / num_batches_tracked.item<double>();
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  check(input);
  const bool is_of_many = group_ && group_->world_size() > 1;
  // Within a BatchNormsOverRanks its kernel counts.
  const bool is_alone = is_training() && !is_of_many && !tensor::SharedBatches::hold();
  if (is_alone && input.numel() == input.size(1)) refuse_count(1);
  const double momentum = next_momentum();
  if (is_training() && is_of_many) {
    return batch_norm_over_ranks(
        input, {weight, bias, running_mean, running_var, momentum, options.eps()}, *group_);
  }
  return at::batch_norm(input,
                        weight,
                        bias,
                        running_mean,
                        running_var,
                        is_training() || !running_mean.defined(),
                        momentum,
                        options.eps(),
                        /*cudnn_enabled=*/true);
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "muster::parallel::SyncBatchNorm(" << options.num_features()
         << ", eps=" << options.eps() << ", momentum=";
  if (options.momentum()) {
    stream << *options.momentum();
  } else {
    stream << "None";
  }
  stream << std::boolalpha << ", affine=" << options.affine()
         << ", track_running_stats=" << options.track_running_stats() << ')';
}

}  // namespace muster::parallel
