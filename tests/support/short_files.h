// A full disk, for tests.
#pragma once

#include <csignal>

#include <sys/resource.h>

namespace muster::test {

/// While it lives, this process can make no file longer than `bytes`, root neither, as on a full
/// disk: a write ends early, then fails. The signal of such a write stays ignored: another thread may
/// be inside one when the limit goes.
class ShortFiles {
 public:
  explicit ShortFiles(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~ShortFiles() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  ShortFiles(const ShortFiles&) = delete;
  ShortFiles& operator=(const ShortFiles&) = delete;

 private:
  rlimit before_{};
};

}  // namespace muster::test
