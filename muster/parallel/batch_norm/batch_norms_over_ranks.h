// Batch normalisation over all ranks' batches, in modules that know nothing of ranks.
#pragma once

#include "muster/distributed/process_group.h"
#include "muster/tensor/batch_norm.h"

namespace muster::parallel {

// Note [Batch norms over ranks]
// C++ cannot put another module where a class calls its BatchNorm2d through a member. But whatever
// the class is, the call arrives at one operator, aten::batch_norm. A kernel of ours stands there
// before autograd's: on a thread with a BatchNormsOverRanks, a call in training becomes
// batch_norm_over_ranks; every other one goes on to ATen's own, to the bit. aten::instance_norm is
// made of batch_norm and stays what it is. BatchNorm1d/2d/3d count num_batches_tracked themselves,
// and refuse a rank's single value per channel before the operator is reached: what is to take one is
// called by tensor::normalize(), or is a SyncBatchNorm. See Note [One value per channel].

/// While it lives, each batch norm in training that this thread calls takes mean and variance over
/// the batches of all ranks, however uneven: the numbers of SyncBatchNorm, and of BatchNorm on the
/// whole batch. One in evaluation mode, with its running statistics, is left alone. Forward and
/// backward become collective, in the module's order. Guards nest: the newest holds.
class BatchNormsOverRanks {
 public:
  /// Nothing changes for null or a group of one. The group outlives this and the graphs' backward.
  /// `counts` false: this rank's batch is a stand-in that takes part in the collectives and has no
  /// part in the statistics.
  explicit BatchNormsOverRanks(const distributed::ProcessGroup* group, bool counts = true);
  ~BatchNormsOverRanks();
  BatchNormsOverRanks(const BatchNormsOverRanks&) = delete;
  BatchNormsOverRanks& operator=(const BatchNormsOverRanks&) = delete;

  /// What holds in this thread now: the arguments of a guard that makes another moment like it.
  struct Holding {
    const distributed::ProcessGroup* group = nullptr;
    bool counts = true;
  };
  static Holding holding();

 private:
  const distributed::ProcessGroup* group_before_;
  bool counts_before_;
  tensor::SharedBatches batches_;
};

}  // namespace muster::parallel
