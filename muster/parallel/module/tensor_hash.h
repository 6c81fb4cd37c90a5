// A 64-bit fingerprint of a tensor's bits.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace muster::parallel {

/// Of the bytes, in memory order: 0.0 and -0.0 differ, and so do NaNs of different bits. Any two
/// tensors that differ have the same hash with a chance of about 2^-64, unless made for it: it is
/// no cryptographic one. Reads about 10 GB/s. CPU, dense.
uint64_t hash_bytes(const void* data, int64_t size, uint64_t seed);

/// The hash of a tensor on any device, dtype and layout of strides // [] int64 on the tensor's
/// device, which is not waited for. Values differ between CPU and other devices.
at::Tensor hash_tensor(const at::Tensor& tensor, uint64_t seed);

/// Of each, with seeds first_seed, first_seed + 1, … // [tensors] int64 on their device.
at::Tensor hash_tensors(const std::vector<at::Tensor>& tensors, uint64_t first_seed);

/// What hash_tensor does for devices whose memory the host cannot read, by integer operations of
/// ATen. Works on any device.
at::Tensor hash_on_device(const at::Tensor& tensor, uint64_t seed);

}  // namespace muster::parallel
