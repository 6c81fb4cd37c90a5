#include "muster/tune/run/stop_on_signals.h"

#include <array>
#include <atomic>
#include <thread>
#include <utility>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

constexpr std::array kStopSignals{SIGINT, SIGTERM};
std::atomic<int> stop_signal_pipe = -1;  // where the handler writes; a handler has no other way
std::atomic<int> handlers_running = 0;   // on any threads; one that begins later finds no pipe

/// The next one does what it does by default. One that a thread took before the handlers were given
/// back, and comes to only now, does what it does since.
void on_stop_signal(int signal) {
  const int saved = errno;
  ++handlers_running;
  const int pipe = stop_signal_pipe;
  if (pipe >= 0) {
    const auto byte = static_cast<unsigned char>(signal);
    [[maybe_unused]] const auto written = ::write(pipe, &byte, 1);
    for (const int other : kStopSignals) ::signal(other, SIG_DFL);
  } else {
    struct sigaction now {};
    ::sigaction(signal, nullptr, &now);
    if (now.sa_handler == &on_stop_signal) ::signal(signal, SIG_DFL);  // of one that was not alone
    ::raise(signal);
  }
  --handlers_running;
  errno = saved;
}

}  // namespace

struct StopOnSignals::Impl {
  void give_handlers_back() const {
    for (size_t i = 0; i < kStopSignals.size(); ++i)
      ::sigaction(kStopSignals[i], &before[i], nullptr);
  }

  UniqueFd read_end, write_end;
  std::array<struct sigaction, kStopSignals.size()> before{};
  std::thread thread;
};

StopOnSignals::StopOnSignals(std::function<void(int signal)> on_signal)
    : impl_(std::make_unique<Impl>()) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw environment_error({.refused = "no pipe for signals", .rule = errno_text(errno)});
  impl_->read_end = UniqueFd(ends[0]);
  impl_->write_end = UniqueFd(ends[1]);
  stop_signal_pipe = ends[1];
  impl_->thread = std::thread([fd = ends[0], on_signal = std::move(on_signal)] {
    unsigned char signal = 0;  // 0: the end
    for (;;) {
      const auto got = ::read(fd, &signal, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got != 1 || signal == 0) return;
      on_signal(signal);
    }
  });
  struct sigaction action {};
  action.sa_handler = &on_stop_signal;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kStopSignals.size(); ++i)
    ::sigaction(kStopSignals[i], &action, &impl_->before[i]);
}

StopOnSignals::~StopOnSignals() {
  impl_->give_handlers_back();
  stop_signal_pipe = -1;
  while (handlers_running > 0) std::this_thread::yield();
  impl_->give_handlers_back();  // the last of them may have set the default
  const unsigned char end = 0;
  [[maybe_unused]] const auto written = ::write(impl_->write_end.get(), &end, 1);
  impl_->thread.join();
}

}  // namespace muster::tune
