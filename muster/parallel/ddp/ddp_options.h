// Is what DdpOptions say possible, and is it the same on all ranks?
#pragma once

#include <string>

#include "muster/parallel/ddp/gradient_sync.h"

namespace muster::parallel {

/// Throws a usage error that names the option: for negative numbers, and for names to ignore that
/// neither a parameter nor a buffer has.
void check_ddp_options(const DdpOptions& options,
                       const NamedTensors& parameters,
                       const NamedTensors& buffers);

/// What must be the same on all ranks, one option a line: it decides which collectives there are.
std::string ddp_options_text(const DdpOptions& options);

}  // namespace muster::parallel
