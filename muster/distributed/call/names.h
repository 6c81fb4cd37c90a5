// What operations are called wherever a user reads of them.
#pragma once

#include <string>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "muster/tensor/dtype_name.h"

namespace muster::distributed {

/// "all_reduce", "reduce_scatter_tensor", as torch.distributed's functions, and as the flight
/// recorder has it (diagnose::op_name).
std::string operation_name(c10d::OpType type);

using tensor::dtype_name;

}  // namespace muster::distributed
