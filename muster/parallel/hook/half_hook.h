// What the hooks fp16 and bf16 share.
#pragma once

#include "muster/parallel/hook/comm_hook.h"

namespace muster::parallel {

/// Gradients travel in `dtype`: rounded to it, divided by the number of ranks, so that their sum
/// cannot overflow where each one did not, summed in it, and widened. Source:
/// torch.distributed.algorithms.ddp_comm_hooks.default_hooks, equal bit for bit where the backend
/// adds in the same order. The sum of R ranks is off by at most R + 1 roundings to `dtype`
/// (relative 2^-11 for fp16, 2^-8 for bf16) of the largest partial sum. A sparse gradient travels
/// as it is.
std::shared_ptr<CommHook> make_half_hook(const distributed::ProcessGroup& group,
                                         at::ScalarType dtype);

/// Divided by the number of ranks and summed in its own dtype.
BucketReduction reduce_uncompressed(const distributed::ProcessGroup& group,
                                    c10d::GradBucket& bucket);

}  // namespace muster::parallel
