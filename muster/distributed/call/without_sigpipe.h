// Writing to sockets by code that takes a broken one for an error, and not for the process's end.
#pragma once

#include <cerrno>
#include <csignal>
#include <ctime>

namespace muster::distributed {

/// While it lives, the calling thread's writes to a socket whose peer is gone fail with EPIPE. So
/// do those of threads that are started meanwhile, for as long as they run. Nothing changes for
/// others: what SIGPIPE does in a program is the program's affair (Python ignores it, so PyTorch's
/// gloo never meets it).
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    if (::sigismember(&before_, SIGPIPE) == 1) return;
    const timespec at_once{};
    while (!was_pending_ && ::sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_;
};

}  // namespace muster::distributed
