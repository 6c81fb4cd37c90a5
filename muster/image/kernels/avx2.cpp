// Compiled with -mavx2 -mfma where there is such a flag (muster/CMakeLists.txt).
#if defined(__AVX2__) && defined(__FMA__)

#define MUSTER_IMAGE_BUILD avx2_build  // NOLINT
#include "muster/image/kernels/kernels_impl.h"

namespace muster::image {
extern const Kernels* const kAvx2Kernels;
const Kernels* const kAvx2Kernels = &avx2_build::kKernels;
}  // namespace muster::image

#else

#include "muster/image/kernels/kernels.h"

namespace muster::image {
extern const Kernels* const kAvx2Kernels;
const Kernels* const kAvx2Kernels = nullptr;
}  // namespace muster::image

#endif
