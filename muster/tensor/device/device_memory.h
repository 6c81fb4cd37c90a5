// How much room a device has.
#pragma once

#include <cstdint>

#include <c10/core/Device.h>

namespace muster::tensor {

/// Bytes that new tensors on `device` can take: the driver's free bytes and what the caching
/// allocator holds unused; for the CPU, the machine's available memory (MemAvailable). Any thread.
/// Throws an environment error where nothing tells.
uint64_t free_bytes_of(c10::Device device);

}  // namespace muster::tensor
