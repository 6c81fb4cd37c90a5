// The one kernel that runs nearly every operator.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace muster::testing {

/// Boxed, for any operator with a kernel for the CPU: checks devices, announces, looks for races,
/// and runs that kernel in place.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace muster::testing
