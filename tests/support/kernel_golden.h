// Goldens that depend on LibTorch's CPU kernels: tests/golden/kernels.py says why, and writes both.
#pragma once

#include <string_view>

#include <ATen/Version.h>

#include "tests/support/golden.h"

namespace muster::test {

/// LibTorch's kernels for AVX2 and later, which fuse a product and a sum, and not its default ones.
inline bool has_fused_kernels() { return at::get_cpu_capability() != "DEFAULT"; }

/// What Python gave with the kernels that this process has.
inline Json read_kernel_golden(std::string_view name) {
  return read_golden(name, has_fused_kernels() ? "golden.json" : "golden.default.json");
}

}  // namespace muster::test
