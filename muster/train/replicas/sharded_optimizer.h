// Any optimizer that looks at each element alone, over this rank's shard of the parameters.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/optim/optimizer.h"
#include "muster/parallel/sharded/zero.h"

namespace muster::train {

/// Makes the optimizer of a part of the parameters.
using OptimizerMaker =
    std::function<std::unique_ptr<optim::Optimizer>(tensor::NamedTensorList parameters)>;

/// One optimizer per bucket of shards, so that the parameters of one bucket travel while the next
/// is updated. Its state is that of this rank's pieces; gather_state() and load_state() translate
/// from and to the state of the same optimizer over whole parameters, so that a run goes on with
/// another number of ranks, or unsharded. Used by the rank's own thread.
class ShardedOptimizer final : public optim::Optimizer {
 public:
  /// `core` outlives this. Names in `make`'s lists are the parameters'.
  ShardedOptimizer(parallel::ZeroCore& core, const OptimizerMaker& make, double lr);

  /// Updates this rank's shard, then the parameters of all ranks. Collective.
  void step() override;
  /// Drops all gradients, those in shards too.
  void zero_grad() override { core_.zero_grad(); }

  /// In stage 2 tensors that stand for this rank's pieces: the parameters have no gradients there.
  std::vector<at::Tensor> parameters() override;

  std::optional<double> momentum() const override { return parts_[0]->momentum(); }
  void set_momentum(double momentum) override;

  /// "momentum/fc1.weight" // [piece]: what this rank holds, masters ("master/fc1.weight") too.
  tensor::NamedTensorList state() const override;
  /// The state over whole parameters, on rank 0; nothing on the others. Collective: each tensor is
  /// put together by itself, so that no other rank ever holds more than its shard.
  tensor::NamedTensorList gather_state() const;
  /// Takes what gather_state(), or the same optimizer unsharded, returned, and keeps this rank's
  /// pieces. Where there are float32 masters, those of the state are taken, else the parameters'
  /// values. Throws a usage error as Optimizer::load_state does.
  void load_state(const tensor::TensorFile& file) override;

 private:
  parallel::ZeroCore& core_;
  std::vector<std::unique_ptr<optim::Optimizer>> parts_;  // by bucket
  std::map<std::string, size_t, std::less<>> bucket_of_;  // this rank's pieces
};

}  // namespace muster::train
