#include "muster/launch/io/pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::launch {
namespace {

// Above stdin, stdout, stderr, the progress pipe and the exec report of a rank.
constexpr int kFirstRaisedFd = 10;

}  // namespace

UniqueFd raised(UniqueFd fd) {
  UniqueFd out(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirstRaisedFd));
  if (!out) {
    throw environment_error({.refused = "cannot open another descriptor",
                             .rule = errno_text(errno),
                             .hint = "raise the limit: ulimit -n"});
  }
  return out;
}

Pipe Pipe::make() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw environment_error({.refused = "cannot make a pipe",
                             .rule = errno_text(errno),
                             .hint = "raise the limit on descriptors: ulimit -n"});
  }
  Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  pipe.read_end = raised(std::move(pipe.read_end));
  pipe.write_end = raised(std::move(pipe.write_end));
  ::fcntl(pipe.read_end.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

ReadResult read_some(int fd, std::span<char> buffer, size_t& size) {
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    size = got > 0 ? static_cast<size_t>(got) : 0;
    if (got > 0) return ReadResult::kBytes;
    if (got == 0) return ReadResult::kClosed;
    if (errno == EINTR) continue;
    return errno == EAGAIN ? ReadResult::kNothing : ReadResult::kClosed;
  }
}

}  // namespace muster::launch
