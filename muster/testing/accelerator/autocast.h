// Autocast of fake devices.
#pragma once

#include <torch/library.h>

namespace muster::testing {

/// Casts as CUDA's autocast does, for the operators of layers and losses; all others pass.
void add_autocast(torch::Library& casts);

}  // namespace muster::testing
