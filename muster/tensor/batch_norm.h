// Batch norms that see a part of a batch.
#pragma once

#include <torch/nn/modules/batchnorm.h>

namespace muster::tensor {

// Note [One value per channel]
// BatchNorm1d/2d/3d of LibTorch refuse to train on one value per channel before they reach the
// operator. Where the statistics are those of all ranks' batches, one value of a rank is enough, as
// it is for torch.nn.SyncBatchNorm; whether all ranks together have two, the operator's kernel
// knows (parallel::batch_norm_over_ranks). So normalize() leaves the question to that kernel where
// there is one, and asks as ever where there is none.

/// While it lives (with `are_shared`), what batch norms of this thread see in training is a part of
/// a batch whose other parts others see. Nests: the newest holds.
class SharedBatches {
 public:
  explicit SharedBatches(bool are_shared);
  ~SharedBatches();
  SharedBatches(const SharedBatches&) = delete;
  SharedBatches& operator=(const SharedBatches&) = delete;

  /// What holds in this thread now.
  static bool hold();

 private:
  bool before_;
};

/// norm.forward(input), which also takes one value per channel in training while the thread's
/// batches are shared.
at::Tensor normalize(torch::nn::BatchNorm2dImpl& norm, const at::Tensor& input);

}  // namespace muster::tensor
