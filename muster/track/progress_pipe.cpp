#include "muster/track/progress_pipe.h"

#include <cerrno>

#include <unistd.h>

#include "muster/base/rank_env.h"
#include "muster/base/text.h"

namespace muster::track {

ProgressPipe::ProgressPipe() {
  const auto fd = process_environment(kProgressFdEnv);
  if (fd) fd_ = static_cast<int>(to_int(*fd).value_or(-1));
}

void ProgressPipe::write(const ProgressEvent& event) {
  if (fd_ < 0) return;
  const std::string line = to_json_line(event);
  if (::write(fd_, line.data(), line.size()) < 0 && errno == EPIPE) fd_ = -1;
}

}  // namespace muster::track
