// A reading of the machine as `muster gpu` prints it: text and JSON. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "muster/base/json_fwd.h"
#include "muster/diagnose/devices/machine_status.h"

namespace muster::cli {

/// Lines of at most `width` columns, each ended by "\n".
std::string machine_text(const diagnose::MachineStatus& status, size_t width);

/// As docs/gpu.md says it: what could not be read is null, and why stands under "missing".
Json to_json(const diagnose::MachineStatus& status);

}  // namespace muster::cli
