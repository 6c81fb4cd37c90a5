// The seam between the library and libmuster_nccl.so.
#pragma once

#include "muster/distributed/meet/backend.h"

namespace muster::distributed {

inline constexpr const char* kNcclModule = "libmuster_nccl.so";
inline constexpr const char* kNcclFactory = "muster_make_nccl";

/// Returns a backend with one reference, which the caller takes over. Throws what c10d throws.
using NcclFactory = c10d::Backend* (*)(const BackendRequest& request);

}  // namespace muster::distributed
