// Before training: do all ranks wrap the same module?
#pragma once

#include <string>

#include "muster/distributed/process_group.h"
#include "muster/parallel/module/tensors.h"

namespace muster::parallel {

/// Collective. Throws a usage error, the same on every rank, that names the first parameter or
/// buffer in which the ranks differ: name, shape, dtype, requires_grad; or a line of `options`, what
/// else must be the same.
void verify_same_module(const std::string& options,
                        const NamedTensors& trained,
                        const NamedTensors& frozen,
                        const NamedTensors& buffers,
                        const distributed::ProcessGroup& group);

}  // namespace muster::parallel
