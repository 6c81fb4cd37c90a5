// Batch normalisation over the batches of all ranks.
#pragma once

#include <iosfwd>
#include <optional>
#include <utility>

#include <torch/nn/module.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>

#include "muster/distributed/process_group.h"

namespace muster::parallel {

/// What a batch normalisation learns and keeps. Undefined: it has none (affine, track_running_stats
/// off).
struct BatchNormTensors {
  at::Tensor weight, bias;               ///< [C]
  at::Tensor running_mean, running_var;  ///< [C]
  at::Tensor num_batches_tracked;        ///< [] int64
};

/// torch.nn.SyncBatchNorm: in training, mean and variance of each channel are those of all ranks'
/// batches together, however uneven, so that outputs, gradients and running statistics equal those
/// of BatchNorm on the whole batch. In evaluation, without a group, or in a group of one it is
/// BatchNorm1d/2d/3d, whose parameters and buffers it has by name (state dicts fit). On the CPU,
/// too.
///
/// Source: Ioffe & Szegedy 2015; statistics are combined as by Chan, Golub & LeVeque 1979, without
/// cancellation.
class SyncBatchNormImpl : public torch::nn::Module, public BatchNormTensors {
 public:
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& options,
                             std::optional<distributed::ProcessGroup> group = std::nullopt);
  /// In the place of a BatchNorm, with its tensors.
  SyncBatchNormImpl(const torch::nn::BatchNormOptions& options,
                    std::optional<distributed::ProcessGroup> group,
                    BatchNormTensors tensors);

  /// `input` // [N, C, …] floating point; N may be 0 on some ranks. In training collective, and so
  /// is backward, which cannot be differentiated again (it throws a usage error if asked to).
  /// Throws a usage error for fewer than two dimensions, another number of channels, or fewer than
  /// two values per channel over all ranks.
  at::Tensor forward(const at::Tensor& input);

  /// The ranks whose batches count. On every rank alike.
  void set_group(std::optional<distributed::ProcessGroup> group) { group_ = std::move(group); }
  const std::optional<distributed::ProcessGroup>& group() const { return group_; }

  void pretty_print(std::ostream& stream) const override;

  torch::nn::BatchNormOptions options;

 private:
  void check(const at::Tensor& input) const;
  double next_momentum();

  std::optional<distributed::ProcessGroup> group_;
};

/// A holder: `SyncBatchNorm norm(torch::nn::BatchNormOptions(64))`, `norm(x)`.
TORCH_MODULE(SyncBatchNorm);

/// Makes the module normalise over all ranks of `group`: gives the group to every SyncBatchNorm in
/// it, and puts one in the place of every BatchNorm1d/2d/3d that a Sequential holds, with its
/// tensors (the same ones) and mode. Before the module is wrapped.
///
/// Where a class of its own calls a BatchNorm through a member, C++ has no way to put another
/// module there: throws a usage error that names all of those, before anything is changed. Declare
/// the member as SyncBatchNorm then; without a group that is a BatchNorm. Or take a
/// BatchNormsOverRanks, which reaches all of them and changes no module.
void convert_sync_batchnorm(torch::nn::Module& module, const distributed::ProcessGroup& group);

}  // namespace muster::parallel
