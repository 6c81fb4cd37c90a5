// Compiled with -mavx2 -mfma where there is such a flag (muster/CMakeLists.txt).
#if defined(__AVX2__) && defined(__FMA__)

#define Eigen EigenAvx2                // NOLINT: see Note [Two builds of one arithmetic]
#define MUSTER_DENSE_BUILD avx2_build  // NOLINT
#include "muster/tune/search/gp/dense_impl.h"

namespace muster::tune {
const DenseMath* const kAvx2Math = &avx2_build::kMath;
}  // namespace muster::tune

#else

#include "muster/tune/search/gp/dense.h"

namespace muster::tune {
const DenseMath* const kAvx2Math = nullptr;
}  // namespace muster::tune

#endif
