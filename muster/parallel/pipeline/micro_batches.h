// How a batch is cut into micro-batches.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "muster/parallel/module/loss_reduction.h"

namespace muster::parallel {

using Tensors = std::vector<at::Tensor>;

// Note [Weights of micro-batches]
// A step's gradient is that of the loss over the whole batch. A loss that is a mean over rows is
// put together from the micro-batches' means by the rows that each has, n_i / N, so that uneven
// ones count right; one that is a sum is added up. A mean over something else than rows (tokens
// that are not padding) needs the count of that: MicroBatch::count.

/// One part of a batch.
struct MicroBatch {
  Tensors inputs;   ///< of the first stage
  Tensors targets;  ///< of the loss
  /// How many the loss is a mean of, in any unit; at least 0.
  double count = 0;
};

/// `rows` cut into `parts`, as even as can be, the longer ones first (torch.tensor_split's rule);
/// as many parts as rows, if there are fewer.
std::vector<int64_t> rows_of_micro_batches(int64_t rows, int64_t parts);

/// Views of the tensors' rows (dimension 0), with the rows as counts. Undefined tensors and those
/// without dimension go to every micro-batch as they are. Throws a usage error for an empty batch
/// and for tensors of unlike lengths.
std::vector<MicroBatch> cut_batch(const Tensors& inputs, const Tensors& targets, int64_t parts);

/// What each micro-batch's loss counts: its share of all counts for a mean, 1 for a sum. Throws a
/// usage error for counts that are negative, not finite, or nothing together.
std::vector<double> weights_of(const std::vector<MicroBatch>& batches, LossReduction reduction);

}  // namespace muster::parallel
