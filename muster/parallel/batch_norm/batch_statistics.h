// The arithmetic of SyncBatchNorm.
#pragma once

#include <ATen/core/Tensor.h>

#include "muster/distributed/process_group.h"

namespace muster::parallel {

/// Of all ranks' batches, by channel // [C] of the statistics' dtype: float32 for half-precision
/// inputs, the input's own else.
struct BatchStatistics {
  at::Tensor mean;
  at::Tensor sum_squares;  ///< of the deviations from the mean
  at::Tensor counts;       ///< [ranks] values per channel
  double count = 0;        ///< their sum
};

/// `input` // [N, C, …]; with `counts` false it has no part in them. Collective.
BatchStatistics gather_statistics(const at::Tensor& input,
                                  const distributed::ProcessGroup& group,
                                  bool counts = true);

/// (input - mean) / sqrt(variance + epsilon) * weight + bias, differentiable in input, weight and
/// bias (also by way of the statistics, unless `counts` is false); its backward is collective.
/// Weight and bias may be undefined.
at::Tensor normalize_over_ranks(const at::Tensor& input,
                                const at::Tensor& weight,
                                const at::Tensor& bias,
                                const BatchStatistics& statistics,
                                double epsilon,
                                const distributed::ProcessGroup& group,
                                bool counts = true);

/// What a batch normalisation learns and keeps // [C] each, or undefined
struct BatchNormArguments {
  at::Tensor weight, bias, running_mean, running_var;
  double momentum = 0;
  double epsilon = 0;
};

/// Throws a usage error: so many values per channel are too few.
[[noreturn]] void refuse_count(int64_t values);

/// at::batch_norm in training, over the batches of all ranks: normalises and moves the running
/// statistics. Collective, and so is its backward. Throws a usage error for fewer than two values
/// per channel over all ranks.
at::Tensor batch_norm_over_ranks(const at::Tensor& input,
                                 const BatchNormArguments& arguments,
                                 const distributed::ProcessGroup& group,
                                 bool counts = true);

}  // namespace muster::parallel
