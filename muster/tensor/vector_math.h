// What must be settled in LibTorch before threads compute side by side.
#pragma once

namespace muster::tensor {

/// Has MKL choose its kernels of sqrt, exp and the other vector functions, for both float types.
/// Once per process; 1 ms then, nothing afterwards. Any thread; returns when it is done, whoever
/// does it.
///
/// Called by whatever starts threads that compute (ThreadWorld, init_process_group, data loader).
/// Programs with threads of their own over tensors should call it before they start them.
///
/// Note [First call of a vector function]
/// ATen hands contiguous sqrt, exp, log, sin, tanh, erf, … to MKL, which looks for the kernel that
/// fits processor and accuracy in the first call of each. In the MKL of LibTorch up to 2.15 two
/// first calls at the same time can give one of them the kernel of lowest accuracy (errors to
/// 2^-11) for that one call (pytorch issue 188792; met here as a rank whose AdamW step was off by
/// 2e-6 while three others were exact, once in some thousand runs). The next call is right again,
/// so that the cause is gone when one looks for it.
void initialize_vector_math();

}  // namespace muster::tensor
