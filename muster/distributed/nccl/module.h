// The seam between the library and libmuster_nccl.so.
#pragma once

#include <cstdint>
#include <string>

#include <torch/version.h>

#include "muster/distributed/meet/backend.h"

namespace muster::distributed {

inline constexpr const char* kNcclModule = "libmuster_nccl.so";
inline constexpr const char* kNcclFactory = "muster_make_nccl";
inline constexpr const char* kNcclStamp = "muster_nccl_stamp";

/// Returns a backend with one reference, which the caller takes over. Throws what c10d throws.
using NcclFactory = c10d::Backend* (*)(const BackendRequest& request);

/// What both sides must have been compiled with alike: C++ objects cross the seam. Each side's own.
struct NcclStamp {
  uint32_t seam = 2;  ///< rises when what crosses it changes
  uint32_t request_bytes = sizeof(BackendRequest);
  uint32_t torch_major = TORCH_VERSION_MAJOR;
  uint32_t torch_minor = TORCH_VERSION_MINOR;
  uint32_t torch_patch = TORCH_VERSION_PATCH;
  /// NCCL_VERSION_CODE of the module's headers. LibTorch's options hold NCCL's own, which grow from
  /// one minor version to the next: the module makes them, and LibTorch, compiled with the headers of
  /// the NCCL that it loads, reads them. 0: no headers.
  uint32_t nccl_headers = 0;

  bool operator==(const NcclStamp&) const = default;
};
using NcclStampOf = const NcclStamp* (*)();

struct NcclLibrary {
  NcclFactory make = nullptr;
  std::string why_not;  ///< empty if there is a factory
};

/// Stays open until the process ends.
NcclLibrary open_nccl(const char* file);

}  // namespace muster::distributed
