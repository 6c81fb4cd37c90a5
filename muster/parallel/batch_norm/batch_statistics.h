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

/// `input` // [N, C, …]. Collective.
BatchStatistics gather_statistics(const at::Tensor& input, const distributed::ProcessGroup& group);

/// (input - mean) / sqrt(variance + epsilon) * weight + bias, differentiable in input, weight and
/// bias (also by way of the statistics); its backward is collective. Weight and bias may be
/// undefined.
at::Tensor normalize_over_ranks(const at::Tensor& input,
                                const at::Tensor& weight,
                                const at::Tensor& bias,
                                const BatchStatistics& statistics,
                                double epsilon,
                                const distributed::ProcessGroup& group);

}  // namespace muster::parallel
