// Fake devices as a kind that a program offers: --device fake:0.
#pragma once

#include "muster/tensor/device/device_kinds.h"

namespace muster::testing {

/// For a program's list of kinds (train::TaskProgram::devices). The first use makes a
/// FakeAccelerator for the rest of the process: MUSTER_FAKE_DEVICES devices (8 if not set) of
/// MUSTER_FAKE_BYTES bytes each (1 GiB), with races that throw and memory that is poisoned, so that
/// each run is a test of its streams. Those that MUSTER_FAKE_BUSY lists ("0,3") let no operator run:
/// they fail as CUDA's devices that another process holds alone. Where the process has one already, that one is it.
extern const tensor::DeviceKind kFakeDevices;

}  // namespace muster::testing
