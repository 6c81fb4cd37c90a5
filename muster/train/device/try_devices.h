// Whether devices can be used at all, before anything is made or anybody is waited for.
#pragma once

#include <optional>
#include <vector>

#include <c10/core/Device.h>

namespace muster::train {

/// Brings a number to each device and back. A kind that is there may have a device that is not to be
/// had: another process holds it alone (CUDA's exclusive mode), its memory is full, or its driver has
/// failed. Then throws an environment error that names the device and `rank`, where it is one of
/// several, with the driver's words. The CPU is not tried. Not collective: call it before the ranks
/// meet, so that those of other machines are told and nobody waits.
void try_devices(const std::vector<c10::Device>& devices, std::optional<int> rank = {});

}  // namespace muster::train
