// What fake devices have instead of a CPU kernel.
#pragma once

#include <string_view>

#include <torch/library.h>

namespace muster::testing {

/// Registers the operators that have kernels of their own: how memory is made, copied, lent to
/// streams, dropped from, and the two fused cells that the CPU does not have.
void add_own_operators(torch::Library& kernels, torch::Library& derivatives);

/// "aten::empty_strided": registered by add_own_operators, or left to LibTorch on purpose.
bool has_own_kernel(std::string_view op);

}  // namespace muster::testing
