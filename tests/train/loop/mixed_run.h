// What the tests of mixed precision share.
#pragma once

#include <cstdlib>

#include "tests/train/small_run.h"

namespace muster::test {

/// Before oneDNN looks: its AMX kernels for 16 bits end in SIGILL on virtual machines that announce
/// AMX and do not have it, in Python as in C++.
inline const bool kWithoutAmx = ::setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", 0) == 0;

/// Overflows at first, and grows after a while.
inline constexpr const char* kHalf =
    "16-mixed:init_scale=1e12,backoff_factor=0.01,growth_interval=4";

inline Ran run_mixed(const std::string& precision,
                     train::TrainOptions options,
                     int world,
                     const std::filesystem::path& output,
                     const std::optional<std::filesystem::path>& resume = {},
                     int64_t stop_after = 0) {
  options.precision = precision;
  return run(options, world, output, resume, stop_after);
}

}  // namespace muster::test
