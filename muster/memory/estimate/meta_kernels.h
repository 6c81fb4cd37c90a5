// Operators on the meta device that LibTorch has for Python alone, or not at all.
#pragma once

namespace muster::memory {

// Note [Meta kernels]
// LibTorch's C++ side knows the shapes of about half of the operators that a training takes; of
// convolutions, normalisations and the fused optimizers among others Python alone does. Those get a kernel
// here that makes what the CPU's makes, saved statistics and all, without elements. One that LibTorch
// has by itself is left alone. They are the process's, for good; no other device sees them.

/// Once for the process; any thread.
void add_meta_kernels();

}  // namespace muster::memory
