#include "muster/launch/job/rank_streams.h"

#include <chrono>
#include <vector>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/launch/process/warden.h"

namespace muster::launch {
namespace {

// One read per turn, so that a rank that floods its output does not starve the others.
constexpr size_t kReadBytes = 64 << 10;

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

UniqueFd open_stdin(int64_t local_rank) {
  if (local_rank == 0 && ::fcntl(STDIN_FILENO, F_GETFD) >= 0 && ::isatty(STDIN_FILENO) == 0)
    return raised(UniqueFd(::dup(STDIN_FILENO)));
  return raised(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
}

RankStreams::RankStreams(int64_t rank, const std::filesystem::path& folder) : rank_(rank) {
  for (Half& half : halves_) half.pipe = Pipe::make();
  if (folder.empty()) return;
  half(Stream::kOut).log = LogFile(folder / "stdout.log");
  half(Stream::kErr).log = LogFile(folder / "stderr.log");
}

void RankStreams::close_write_ends() {
  for (Half& half : halves_) half.pipe.write_end.reset();
}

ReadResult RankStreams::read(Stream stream, JobObserver& observer) {
  static thread_local std::vector<char> buffer(kReadBytes);
  size_t size = 0;
  const ReadResult result = read_some(read_fd(stream), buffer, size);
  if (result == ReadResult::kBytes) {
    const std::string_view bytes(buffer.data(), size);
    const std::string trouble = half(stream).log.write(bytes);
    if (!trouble.empty()) observer.on_note(trouble);
    half(stream).lines.feed(bytes, now_ms(), emit_to(stream, observer));
  }
  return result;
}

void RankStreams::drain(JobObserver& observer) {
  for (const Stream stream : {Stream::kOut, Stream::kErr}) {
    while (read(stream, observer) == ReadResult::kBytes) {
    }
    half(stream).lines.flush(emit_to(stream, observer));
  }
}

LineSplitter::Emit RankStreams::emit_to(Stream stream, JobObserver& observer) {
  return [this, stream, &observer](std::string_view line) {
    tail_.add(line);
    observer.on_line(rank_, stream, line);
  };
}

}  // namespace muster::launch
