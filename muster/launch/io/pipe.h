// Pipes between the launcher and what it starts.
#pragma once

#include <cstddef>
#include <span>

#include "muster/base/file.h"

namespace muster::launch {

/// The descriptor under which rank 0 finds the pipe of MUSTER_PROGRESS_FD; first behind the
/// standard streams.
inline constexpr int kProgressFd = 3;

/// A copy of `fd` that closes on exec and lies above the numbers that a rank's own descriptors get;
/// `fd` is closed. Throws an environment error.
UniqueFd raised(UniqueFd fd);

/// Both ends of a pipe; the reading end does not block.
struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;

  /// Throws an environment error.
  static Pipe make();
};

/// What a read found: bytes, nothing yet, or that all writers are gone.
enum class ReadResult { kBytes, kNothing, kClosed };

/// Reads once into `buffer`; `size` gets the count.
ReadResult read_some(int fd, std::span<char> buffer, size_t& size);

}  // namespace muster::launch
