#define MUSTER_IMAGE_BUILD baseline  // NOLINT
#include "muster/image/kernels/kernels_impl.h"

namespace muster::image {

extern const Kernels* const kAvx2Kernels;  // avx2.cpp

const Kernels& baseline_kernels() { return baseline::kKernels; }

const Kernels* avx2_kernels() {
#if defined(__x86_64__)
  const bool can = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return can ? kAvx2Kernels : nullptr;
#else
  return nullptr;
#endif
}

const Kernels& kernels() {
  static const Kernels& fastest = avx2_kernels() != nullptr ? *avx2_kernels() : baseline_kernels();
  return fastest;
}

}  // namespace muster::image
