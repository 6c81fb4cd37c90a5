// Tensors that ranks have by name, put together on one of them.
#pragma once

#include <torch/nn/module.h>

#include "muster/distributed/process_group.h"
#include "muster/tensor/named_tensors.h"

namespace muster::train {

/// What all ranks have, in the order of ranks, on the CPU of rank 0; nothing on the others.
/// Collective.
tensor::NamedTensorList gather_named(const distributed::ProcessGroup& group,
                                     const tensor::NamedTensorList& own);

/// An optimizer's state by "kind/parameter" in the order that one rank's would have: by kind, then as the
/// module has its parameters.
tensor::NamedTensorList in_order_of(const torch::nn::Module& module,
                                    const tensor::NamedTensorList& state);

}  // namespace muster::train
