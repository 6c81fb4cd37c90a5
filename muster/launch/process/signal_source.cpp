#include "muster/launch/process/signal_source.h"

#include <errno.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "muster/base/error.h"

namespace muster::launch {

SignalSource::SignalSource(bool take) {
  sigset_t taken;
  ::sigemptyset(&taken);
  for (const int signal : {SIGINT, SIGHUP, SIGQUIT, SIGTERM}) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (take && action.sa_handler != SIG_IGN) ::sigaddset(&taken, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &taken, &before_);
  if (!take) return;
  fd_.reset(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (fd_) return;
  const int reason = errno;
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  throw environment_error({.refused = "cannot wait for signals", .rule = errno_text(reason)});
}

SignalSource::~SignalSource() {
  while (next() != 0) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int SignalSource::next() {
  signalfd_siginfo info;
  if (!fd_ || ::read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return 0;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace muster::launch
