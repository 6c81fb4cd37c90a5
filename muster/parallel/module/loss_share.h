// A mean loss over one rank's samples as a share of the mean over all ranks' samples.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "muster/distributed/process_group.h"

namespace muster::parallel {

/// Collective: the samples of all ranks together; one sum of 8 bytes.
int64_t samples_of_all(int64_t samples, const distributed::ProcessGroup& group);

/// mean_loss x samples x ranks / samples_of_all: the mean over `ranks` of its gradients is that of
/// the mean loss over all samples. 0 of a rank without samples, whatever its loss is. Throws a usage
/// error if there is no sample, or fewer in all than here.
at::Tensor share_of_loss(const at::Tensor& mean_loss,
                         int64_t samples,
                         int64_t samples_of_all,
                         int ranks);

}  // namespace muster::parallel
