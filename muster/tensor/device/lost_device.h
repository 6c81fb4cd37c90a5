// Tensors whose device has ended with an error that stays.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace muster::tensor {

// Note [Lost devices]
// A kernel of CUDA that ends with an assertion takes its process's context along: every later call of the
// device says the same words. LibTorch frees memory that a copy on another stream may still read behind an
// event, a pinned block and a tensor of record_stream() alike, and there are no events any more: the free
// throws in a destructor, and the process ends by std::terminate before anyone is told why. So who holds
// such memory lets it go through release_unless_lost(): what cannot be freed stays, for the rest of a
// process that has not long to live, and the next call of the device throws where it can be caught.

/// Whether the device, of CUDA or HIP, answers nothing but an error. Asks it; waits for nothing. Any
/// thread.
bool is_lost(c10::Device device) noexcept;

/// Drops the tensors; if the device is lost their memory is never freed. The vector is empty then.
void release_unless_lost(c10::Device device, std::vector<at::Tensor>& tensors) noexcept;

}  // namespace muster::tensor
