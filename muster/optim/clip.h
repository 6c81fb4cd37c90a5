// Gradients kept within a length.
#pragma once

#include <ATen/core/Tensor.h>

namespace muster::optim {

/// Scales the gradients of `parameters` together, in place, by min(1, max_norm / (norm + 1e-6)),
/// where norm is that of all gradients taken as one vector, of order `norm_type` (infinity: the
/// greatest magnitude). Parameters without gradient are left out. Bit for bit
/// torch.nn.utils.clip_grad_norm_.
///
/// Returns the norm before scaling // [] of the gradients' dtype, on the device of the first; 0 if
/// there is no gradient. Nothing waits for the device. If a gradient is not finite, neither is the
/// norm, and all gradients become NaN (or 0, where the norm is infinite): look at the norm before
/// the optimizer's step. With DDP call it after backward, on every rank: gradients are the same
/// there, and so is the norm.
///
/// Throws a usage error if max_norm is negative or NaN, or norm_type is not above 0.
at::Tensor clip_grad_norm(at::TensorList parameters, double max_norm, double norm_type = 2.0);

/// Bounds each element of the gradients of `parameters` by itself, in place: below by -limit, above
/// by limit; NaN stays. Parameters without gradient are left out. Bit for bit
/// torch.nn.utils.clip_grad_value_. What is bounded is one element, so pieces of a gradient may be
/// bounded one by one, on any rank. Nothing waits for the device.
///
/// Throws a usage error if the limit is negative or NaN.
void clip_grad_value(at::TensorList parameters, double limit);

}  // namespace muster::optim
