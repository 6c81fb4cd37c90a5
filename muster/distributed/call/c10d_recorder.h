// LibTorch's own flight recorder, where it does harm.
#pragma once

#include <cstdlib>

#include <torch/version.h>

namespace muster::distributed {

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
/// It keeps the groups that it has seen in a map which it writes without its lock, so two threads
/// of two groups corrupt the heap (mended by LibTorch 2.15). Off unless asked for, and before any
/// thread may read the environment; Muster's recorder has what it would tell.
inline const bool kC10dRecorderWasAskedFor = [] {
  if (std::getenv("TORCH_NCCL_TRACE_BUFFER_SIZE") != nullptr) return true;
  if (std::getenv("TORCH_FR_BUFFER_SIZE") != nullptr) return true;
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", 1);
  return false;
}();
#endif

}  // namespace muster::distributed
