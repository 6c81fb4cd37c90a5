// What a group looks at before a call of its own.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace muster::distributed {

/// Throws a usage error for a tensor that the group does not move, before LibTorch looks at it.
/// `written`: the result goes there.
void check_movable(const c10d::ProcessGroup& group,
                   const std::string& call,
                   const at::Tensor& tensor,
                   bool written);

}  // namespace muster::distributed
