// What allocators make of a trace: bytes as they were asked for, rounded, and taken from the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "muster/memory/estimate/meta_recording.h"

namespace muster::memory {

// Note [Pool of a device]
// The caching allocator of CUDA devices rounds a tensor to 512 bytes and takes it from a segment that it
// keeps: of 2 MiB for tensors up to 1 MiB, of 20 MiB below 10 MiB, else of the tensor's own size, rounded
// to 2 MiB. Of the free blocks that are large enough the smallest serves, and is split if what is left
// is worth keeping: 512 bytes of a small one, more than 1 MiB of a large one. Neighbours that are free
// become one again. Segments are never given back here, which they are when memory runs out. One
// stream, and the allocator's default options. Source: the documentation of PYTORCH_CUDA_ALLOC_CONF,
// and the constants of c10/core/AllocatorConfig.h.

/// The segments of one device and stream.
class PoolModel {
 public:
  /// Returns what release() takes.
  size_t allocate(int64_t bytes);
  void release(size_t handle);

  int64_t allocated() const {
    return allocated_;
  }                                               ///< bytes of blocks in use, as they were rounded
  int64_t reserved() const { return reserved_; }  ///< bytes of segments

  static int64_t rounded(int64_t bytes);

 private:
  struct Piece {
    int64_t bytes = 0;
    bool is_free = false, is_small = false;
    size_t before = kNone, after = kNone;  // neighbours within the segment
  };
  static constexpr size_t kNone = static_cast<size_t>(-1);
  using FreeList = std::set<std::pair<int64_t, size_t>>;  // smallest first

  FreeList& free_of(const Piece& piece) { return piece.is_small ? small_ : large_; }
  size_t add_segment(int64_t bytes, bool is_small);
  void split(size_t index, int64_t bytes);
  void join(size_t index, size_t next);

  std::vector<Piece> pieces_;
  FreeList small_, large_;
  int64_t allocated_ = 0, reserved_ = 0;
};

}  // namespace muster::memory
