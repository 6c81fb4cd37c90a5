// Goldens that depend on LibTorch's CPU kernels: tests/golden/kernels.py says why, and writes both.
#pragma once

#include <string_view>

#include <ATen/Version.h>

#include "tests/support/golden.h"

namespace muster::test {

/// What Python gave with the kernels that this process has.
inline Json read_kernel_golden(std::string_view name) {
  return read_golden(name,
                     at::get_cpu_capability() == "DEFAULT" ? "golden.default.json" : "golden.json");
}

}  // namespace muster::test
