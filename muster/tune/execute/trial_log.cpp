#include "muster/tune/execute/trial_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tune {

std::string TrialLog::write(std::string_view bytes) {
  if (given_up_ || bytes.empty()) return "";
  try {
    if (fd_ && size_ + bytes.size() > max_bytes_) {
      fd_.reset();
      ::rename(path_.c_str(), (path_.string() + ".1").c_str());
    }
    if (!fd_) {
      fd_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
      struct stat info {};
      if (!fd_ || ::fstat(fd_.get(), &info) != 0) {
        throw environment_error(
            {.refused = "cannot create " + path_.string(), .rule = errno_text(errno)});
      }
      size_ = static_cast<uint64_t>(info.st_size);
    }
    write_all(fd_.get(), bytes, path_);
    size_ += bytes.size();
    return "";
  } catch (const Error& error) {
    fd_.reset();
    given_up_ = true;
    return concat(
        error.text().refused, ": ", error.text().rule, "; the trial goes on without this log");
  }
}

}  // namespace muster::tune
