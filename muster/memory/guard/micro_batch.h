// How a batch is cut into smaller ones whose gradients add up to its own.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

namespace muster::memory {

/// Some rows of a step's batch, or of one of its batches.
struct MicroBatch {
  int64_t begin = 0, end = 0;  ///< rows
  int64_t batch = 0;           ///< of which batch, where a step has several
  int64_t index = 0;           ///< 0, 1, … of this attempt at the step, over all batches
  int64_t count = 1;           ///< of them
  bool is_whole = true;        ///< these are all rows of the batch
  /// What its mean loss is multiplied with, so that the sum over the batch's micro-batches is the
  /// batch's mean loss: its share of the rows, or of the weights that were given. 1 for a whole
  /// batch. A loss that is a sum needs no weight.
  double weight = 1;

  int64_t rows() const { return end - begin; }
  bool is_first() const { return index == 0; }
  bool is_last() const { return index + 1 == count; }

  /// These rows of a tensor // [batch, …] -> [rows(), …], a view; the tensor itself where all.
  at::Tensor of(const at::Tensor& whole) const {
    return is_whole ? whole : whole.narrow(0, begin, rows());
  }
};

/// Each batch in ceil(rows / most) pieces whose rows differ by one at most, the larger ones first.
/// `most` of 0: whole batches. `weights` are of the rows of all batches, one after the other (tokens
/// of a sentence, say); empty: rows count alike. Throws a usage error for a batch without rows,
/// `most` below 0, and weights that are not one per row, negative, not finite, or 0 in all rows of a
/// batch.
std::vector<MicroBatch> micro_batches(c10::ArrayRef<int64_t> rows,
                                      int64_t most,
                                      c10::ArrayRef<double> weights = {});

}  // namespace muster::memory
