// Copies with a fake device at one end, or at both.
#pragma once

#include <ATen/core/Tensor.h>

namespace muster::testing {

// Note [Copies under way]
// A copy that need not be waited for, between a device and pinned memory, is under way until the
// host waits for its stream or an event behind it. To the host: what a reader finds there until
// then is NaN. From the host: the bytes must be the same then as when it was queued. Other copies
// to the CPU end when the call does, as with CUDA, and the host knows of everything before them.

/// Where copy_() and to() end. Returns `to`.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking);
at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to);

}  // namespace muster::testing
