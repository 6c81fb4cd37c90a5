// The seam between the library and libmuster_nccl.so.
#pragma once

#include "muster/parallel/backend.h"

namespace muster::parallel {

inline constexpr const char* kNcclModule = "libmuster_nccl.so";
inline constexpr const char* kNcclFactory = "muster_make_nccl";

/// Returns a backend with one reference, which the caller takes over. Throws what c10d throws.
using NcclFactory = c10d::Backend* (*)(const BackendRequest& request);

}  // namespace muster::parallel
