#define MUSTER_DENSE_BUILD baseline  // NOLINT
#include "muster/tune/search/gp/dense_impl.h"

namespace muster::tune {

const DenseMath kBaselineMath = baseline::kMath;

bool can_run_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
#else
  return false;
#endif
}

const DenseMath& dense_math() {
  static const DenseMath& fastest =
      kAvx2Math != nullptr && can_run_avx2() ? *kAvx2Math : kBaselineMath;
  return fastest;
}

}  // namespace muster::tune
