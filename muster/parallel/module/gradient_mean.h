// Gradients that each rank has added up, averaged over a group apart from any backward.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "muster/distributed/process_group.h"
#include "muster/distributed/work.h"

namespace muster::parallel {

// Note [Mean of gradients]
// A parameter counts as zero on a rank where it has no gradient, and stays without one if none of
// the ranks has: each dtype's gradients go as one tensor, with a number at its end for each of them
// that says who has one. Each rank's part is divided by the number of ranks before the sum, as DDP
// does, so that a sum of halves does not overflow.

/// The values become the parameter's grad(), in the tensor that is there, or in one of their own.
void store_gradient(const at::Tensor& parameter, const at::Tensor& values);

/// One such average. One thread.
class GradientMean {
 public:
  /// Copies the gradients of `parameters`, which are alike on all ranks; without `with_gradients`
  /// this rank takes part with nothing. Throws a usage error for sparse ones.
  GradientMean(const std::vector<at::Tensor>& parameters, int ranks, bool with_gradients = true);
  /// Collective: they begin to travel.
  void start(const distributed::ProcessGroup& group);
  /// The averages have arrived. Throws what the transfer throws.
  void wait();
  /// Behind wait(): they become the parameters' grad().
  void store();

 private:
  struct Sum {
    std::vector<at::Tensor> parameters;
    at::Tensor flat;  // their gradients one after the other, then a mark for each
    distributed::Work work;
  };
  std::vector<Sum> sums_;  // one for each dtype and device
};

}  // namespace muster::parallel
