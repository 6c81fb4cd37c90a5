// What operations and dtypes are called wherever a user reads of them.
#pragma once

#include <string>

#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace muster::distributed {

/// "all_reduce", "reduce_scatter_tensor", as torch.distributed's functions, and as the flight
/// recorder has it (diagnose::op_name).
std::string operation_name(c10d::OpType type);

/// "float32", as PyTorch's dtypes; c10's own name for those that have none. Lives as long as the
/// program.
const char* dtype_name(at::ScalarType type);

}  // namespace muster::distributed
