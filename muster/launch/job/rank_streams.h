// The two output streams of one rank: from its pipes to the log on disk, the observer and the tail.
// Private to the room.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>

#include "muster/base/file.h"
#include "muster/launch/io/line_splitter.h"
#include "muster/launch/io/pipe.h"
#include "muster/launch/job/job.h"
#include "muster/launch/job/log_folder.h"
#include "muster/launch/job/tail.h"

namespace muster::launch {

/// stdin of the ranks: local rank 0 gets the launcher's unless that is a terminal, the others an
/// empty one, as mpirun does. A terminal has one reader, and it is not a rank.
UniqueFd open_stdin(int64_t local_rank);

class RankStreams {
 public:
  /// `folder` is the rank's log folder, empty for none. Throws an environment error.
  RankStreams(int64_t rank, const std::filesystem::path& folder);

  int read_fd(Stream stream) const { return half(stream).pipe.read_end.get(); }
  int write_fd(Stream stream) const { return half(stream).pipe.write_end.get(); }

  /// To be called once the rank has its copies, so that its end closes the pipe.
  void close_write_ends();

  /// Reads once and passes whole lines on.
  ReadResult read(Stream stream, JobObserver& observer);

  /// Reads all that is there and hands out unfinished lines.
  void drain(JobObserver& observer);

  const Tail& tail() const { return tail_; }

 private:
  struct Half {
    Pipe pipe;
    LineSplitter lines;
    LogFile log;
  };
  Half& half(Stream stream) { return halves_[static_cast<size_t>(stream)]; }
  const Half& half(Stream stream) const { return halves_[static_cast<size_t>(stream)]; }
  LineSplitter::Emit emit_to(Stream stream, JobObserver& observer);

  int64_t rank_;
  std::array<Half, 2> halves_;
  Tail tail_;
};

}  // namespace muster::launch
