#include "muster/parallel/batch_norm/batch_norms_over_ranks.h"

#include <optional>
#include <vector>

#include <ATen/ops/batch_norm_native.h>
#include <ATen/ops/instance_norm_native.h>
#include <torch/library.h>

#include "muster/parallel/batch_norm/batch_statistics.h"

namespace muster::parallel {
namespace {

using Maybe = std::optional<at::Tensor>;

/// What the newest guard of this thread says.
thread_local const distributed::ProcessGroup* norms_group = nullptr;
thread_local bool norms_count = true;

bool is_of_many(const distributed::ProcessGroup* group) {
  return group != nullptr && group->world_size() > 1;
}

at::Tensor batch_norm_kernel(const at::Tensor& input,
                             const Maybe& weight,
                             const Maybe& bias,
                             const Maybe& running_mean,
                             const Maybe& running_var,
                             bool training,
                             double momentum,
                             double epsilon,
                             bool cudnn_enabled) {
  if (norms_group == nullptr || !training) {
    return at::native::batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, epsilon, cudnn_enabled);
  }
  const auto tensor = [](const Maybe& given) { return given.value_or(at::Tensor()); };
  return batch_norm_over_ranks(
      input,
      {tensor(weight), tensor(bias), tensor(running_mean), tensor(running_var), momentum, epsilon},
      *norms_group,
      norms_count);
}

at::Tensor instance_norm_kernel(const at::Tensor& input,
                                const Maybe& weight,
                                const Maybe& bias,
                                const Maybe& running_mean,
                                const Maybe& running_var,
                                bool use_input_stats,
                                double momentum,
                                double epsilon,
                                bool cudnn_enabled) {
  const BatchNormsOverRanks alone(nullptr);
  return at::native::instance_norm(input,
                                   weight,
                                   bias,
                                   running_mean,
                                   running_var,
                                   use_input_stats,
                                   momentum,
                                   epsilon,
                                   cudnn_enabled);
}

/// Once per process, when somebody wants it; it stays, since other threads may be inside. By device:
/// for an operator made of others the dispatcher passes the alias Autograd over.
void stand_before_autograd() {
  static const auto* kernels = [] {
    auto* all = new std::vector<torch::Library>();
    for (const auto key : {c10::DispatchKey::AutogradCPU,
                           c10::DispatchKey::AutogradCUDA,
                           c10::DispatchKey::AutogradPrivateUse1}) {
      all->emplace_back(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
      all->back().impl("batch_norm", TORCH_FN(batch_norm_kernel));
      all->back().impl("instance_norm", TORCH_FN(instance_norm_kernel));
    }
    return all;
  }();
  (void)kernels;
}

}  // namespace

BatchNormsOverRanks::BatchNormsOverRanks(const distributed::ProcessGroup* group, bool counts)
    : group_before_(norms_group), counts_before_(norms_count), batches_(is_of_many(group)) {
  const bool is_many = is_of_many(group);
  if (is_many) stand_before_autograd();
  norms_group = is_many ? group : nullptr;
  norms_count = counts;
}

BatchNormsOverRanks::Holding BatchNormsOverRanks::holding() { return {norms_group, norms_count}; }

BatchNormsOverRanks::~BatchNormsOverRanks() {
  norms_group = group_before_;
  norms_count = counts_before_;
}

}  // namespace muster::parallel
