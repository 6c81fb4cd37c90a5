#include "cli/gpu/status_thread.h"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"

namespace muster::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// A thread that is begun while this lives gets no signal that another one waits for: the driver's
/// calls are not interrupted, and a terminal's signals come where the terminal is looked after.
class NoSignals {
 public:
  NoSignals() {
    sigset_t none;
    ::sigemptyset(&none);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCHLD})
      ::sigaddset(&none, signal);
    ::pthread_sigmask(SIG_BLOCK, &none, &before_);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

struct StatusThread::State {
  std::function<diagnose::MachineStatus()> read;
  double interval_s = 1;
  UniqueFd wake;
  mutable std::mutex mutex;
  std::condition_variable change;
  bool is_asked_to_end = false, has_ended = false;
  std::optional<SteadyClock::time_point> reads_since;
  std::shared_ptr<const diagnose::MachineStatus> newest;
  std::exception_ptr failure;
};

void StatusThread::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (!state->is_asked_to_end) {
    state->reads_since = SteadyClock::now();
    lock.unlock();
    std::shared_ptr<const diagnose::MachineStatus> status;
    std::exception_ptr failure;
    try {
      status = std::make_shared<const diagnose::MachineStatus>(state->read());
    } catch (...) {
      failure = std::current_exception();  // no memory, say: newest() throws it
    }
    lock.lock();
    state->reads_since.reset();
    state->newest = std::move(status);
    state->failure = failure;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(state->wake.get(), &one, sizeof one);
    if (failure) break;
    state->change.wait_for(lock, std::chrono::duration<double>(state->interval_s), [&] {
      return state->is_asked_to_end;
    });
  }
  lock.unlock();
  state->read = nullptr;  // what the reader holds of the driver goes here, where it was made
  lock.lock();
  state->has_ended = true;
  state->change.notify_all();
}

StatusThread::StatusThread(std::function<diagnose::MachineStatus()> read, double interval_s)
    : state_(std::make_shared<State>()) {
  state_->read = std::move(read);
  state_->interval_s = interval_s;
  state_->wake.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state_->wake)
    throw environment_error({.refused = "cannot make an eventfd", .rule = errno_text(errno)});
  const NoSignals none;
  std::thread([state = state_] { run(state); }).detach();
}

StatusThread::~StatusThread() { end(0); }

int StatusThread::wake_fd() const { return state_->wake.get(); }

std::shared_ptr<const diagnose::MachineStatus> StatusThread::newest() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(state_->wake.get(), &count, sizeof count);
  const std::lock_guard lock(state_->mutex);
  if (state_->failure) std::rethrow_exception(state_->failure);
  return state_->newest;
}

double StatusThread::reading_for_s() const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->reads_since) return 0;
  return std::chrono::duration<double>(SteadyClock::now() - *state_->reads_since).count();
}

bool StatusThread::end(double timeout_s) {
  std::unique_lock lock(state_->mutex);
  state_->is_asked_to_end = true;
  state_->change.notify_all();
  return state_->change.wait_for(
      lock, std::chrono::duration<double>(timeout_s), [&] { return state_->has_ended; });
}

}  // namespace muster::cli
