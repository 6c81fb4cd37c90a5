// The last allocations of CPU tensors, as a file that PyTorch's memory viewer opens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "muster/memory/allocator/cpu_memory.h"

namespace muster::memory {

// Note [Snapshot files]
// The file is the dict of torch.cuda.memory._snapshot(), pickled, with the CPU as device 0:
// `segments`, one for each live block that was recorded, as malloc gives each its own, and
// `device_traces`, the last events, oldest first. It opens in https://pytorch.org/memory_viz and by
// `python -m torch.cuda._memory_viz` (trace_plot, segment_plot, stats, memory, …).
//   - Frames are the block's operator, its layer and its scopes, from the inside outwards, with
//     "operator", "layer" and "scope" in the place of a file: C++ has no cheap stack that would say
//     more, and scopes are in the backward those of the forward.
//   - `category` is the owner, which the viewer gives a colour: activation, gradient, parameter.
//     It wants one of the name "unknown" where there are any (and stumbles otherwise): those of
//     nobody are that. Owners of events are those of that moment; a parameter is one only once a
//     Tracker has marked it.
//   - `user_metadata` says iteration and thread.
//   - A refused allocation is an event `oom` at its place.

struct HistoryOptions {
  size_t events =
      size_t{1} << 16;         ///< that are kept, 64 bytes each; an allocation and a free are two
  Level level = Level::kTags;  ///< at least kTags; kLayers for the names of layers
};

struct SnapshotFile {
  int64_t blocks = 0;     ///< live
  int64_t bytes = 0;      ///< of these
  int64_t events = 0;     ///< in the file
  int64_t forgotten = 0;  ///< events that were older than the ring is long
};

/// Records while it lives: a look at the clock, a lock and a copy of 64 bytes for each event, beside
/// what its level costs. One in a process: a second one throws a usage error, as do options out of
/// range.
class AllocationHistory {
 public:
  explicit AllocationHistory(const HistoryOptions& options = {});
  ~AllocationHistory();
  AllocationHistory(const AllocationHistory&) = delete;
  AllocationHistory& operator=(const AllocationHistory&) = delete;

  /// What is known now. Takes no memory that grows with the number of events but a copy of them.
  /// Other threads may go on; what they do meanwhile may be half in it. Any thread. Throws an
  /// environment error if the file cannot be written; it appears as a whole or not at all.
  SnapshotFile write(const std::filesystem::path& path) const;

 private:
  struct OnlyOne {
    explicit OnlyOne(const HistoryOptions& options);
    ~OnlyOne();
    OnlyOne(const OnlyOne&) = delete;
    OnlyOne& operator=(const OnlyOne&) = delete;
  };
  OnlyOne only_one_;
  Recording recording_;
};

}  // namespace muster::memory
