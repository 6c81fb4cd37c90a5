// How much room a device has.
#pragma once

#include <cstdint>

#include <c10/core/Device.h>

#include "muster/base/rank_env.h"

namespace muster::tensor {

/// Of a device's memory tensors get whole blocks: LibTorch's caching allocators give multiples of this, and
/// count them. Source: kMinBlockSize of c10/core/AllocatorConfig.h; fake devices do the same.
inline constexpr int64_t kBlockBytes = 512;

/// What `device` counts for a tensor of so many bytes; on the CPU these. Pure.
inline int64_t block_bytes(c10::Device device, int64_t bytes) {
  if (device.is_cpu()) return bytes;
  return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

/// Bytes that new tensors on `device` can take: the driver's free bytes and what the caching
/// allocator holds unused, within memory_share(); for the CPU, free_host_memory(). Any thread. Throws an
/// environment error where nothing tells.
uint64_t free_bytes_of(c10::Device device);

/// The share of a CUDA device that PYTORCH_ALLOC_CONF or PYTORCH_CUDA_ALLOC_CONF leaves to this process
/// (per_process_memory_fraction); 1: all. What a program sets by a call nobody tells.
double memory_share(const EnvLookup& environment = process_environment);

}  // namespace muster::tensor
