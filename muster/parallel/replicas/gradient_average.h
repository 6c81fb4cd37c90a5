// Gradients that are averaged over the ranks between backward and the optimizer's step.
#pragma once

#include <vector>

#include <torch/nn/module.h>

#include "muster/distributed/process_group.h"
#include "muster/parallel/module/tensors.h"

namespace muster::parallel {

/// For loops in which a backward may fail on one rank alone, and is made again (memory::Guard):
/// DistributedDataParallel, whose averages run during backward, would leave the other ranks waiting
/// in one. Here backwards are each rank's own, any number of them, and average() comes when all
/// have passed. What it costs: the transfer no longer hides behind backward.
///
///     muster::parallel::GradientAverage average(*net, group);
///     for (…) {
///       optimizer.zero_grad();
///       loss(net->forward(x)).backward();  // on this rank alone
///       average();
///       optimizer.step();
///     }
///
/// Gradients are those of DistributedDataParallel, to the bit where there are two ranks; with more,
/// the sums may have another order. Used by the rank's own thread.
class GradientAverage {
 public:
  /// Parameters and buffers become rank 0's. Collective. Throws a usage error, the same on every rank,
  /// that names the first tensor in which the ranks' modules differ, and one for a module without
  /// parameters that are trained.
  GradientAverage(const torch::nn::Module& module, distributed::ProcessGroup group);

  /// Each gradient becomes the mean over the ranks, where it lies: it takes no memory of a device.
  /// Buffers (BatchNorm's statistics) become rank 0's. Collective. Throws a usage error that names
  /// the parameters that got no gradient, on the rank that has none, before anything is sent.
  void average();
  void operator()() { average(); }

 private:
  void share_buffers() const;

  NamedTensors parameters_;  // trained ones, each once
  std::vector<at::Tensor> buffers_;
  distributed::ProcessGroup group_;
};

}  // namespace muster::parallel
