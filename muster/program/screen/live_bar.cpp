#include "muster/program/screen/live_bar.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/program/screen/progress_bar.h"

namespace muster::program {
namespace {

using BarClock = std::chrono::steady_clock;
constexpr auto kDrawGap = std::chrono::milliseconds(67);

/// 0 or errno. A descriptor that was made non-blocking by someone else is waited for.
int write_whole(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put >= 0) {
      text.remove_prefix(static_cast<size_t>(put));
    } else if (errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

struct LiveBar::State {
  struct Chunk {
    int fd;
    std::string text;
  };

  explicit State(LiveBarOptions given) : options(std::move(given)) {}

  const LiveBarOptions options;
  UniqueFd wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Chunk> pending;
  size_t pending_bytes = 0;
  bool congested = false;
  std::optional<track::ProgressEvent> event;
  bool event_is_new = false;
  PlainPace pace;
  bool closing = false;
  bool closed = false;
  int failed_errno = 0;

  // The writing thread's own.
  bool drawn = false;
  BarClock::time_point next_draw = BarClock::now();

  void put(int fd, std::string_view text);
  void write_chunks(const std::vector<Chunk>& chunks);
  void erase();
  void draw(const track::ProgressEvent& what);
};

void LiveBar::State::put(int fd, std::string_view text) {
  const std::lock_guard lock(mutex);
  if (pending.empty() || pending.back().fd != fd) pending.push_back({fd, ""});
  pending.back().text.append(text).push_back('\n');
  pending_bytes += text.size() + 1;
  congested = pending_bytes > kMostPendingBytes;
  changed.notify_all();
}

void LiveBar::State::erase() {
  if (std::exchange(drawn, false)) write_whole(options.err_fd, "\r\x1b[K");
}

void LiveBar::State::write_chunks(const std::vector<Chunk>& chunks) {
  for (const Chunk& chunk : chunks) {
    const bool on_screen =
        chunk.fd == options.out_fd ? options.out_is_terminal : options.err_is_terminal;
    if (on_screen) erase();
    if (const int error = write_whole(chunk.fd, chunk.text); error != 0) {
      const std::lock_guard lock(mutex);
      if (failed_errno == 0) failed_errno = error;
    }
  }
}

void LiveBar::State::draw(const track::ProgressEvent& what) {
  // One column stays free: a terminal would move on to the next line.
  const int width = std::max(options.width() - 1, 1);
  const std::string bar = render_bar(what, static_cast<size_t>(width), options.colour);
  write_whole(options.err_fd, concat('\r', bar, "\x1b[K"));
  drawn = true;
  next_draw = BarClock::now() + kDrawGap;
}

void LiveBar::write_loop(State& state) {
  std::unique_lock lock(state.mutex);
  for (;;) {
    // A bar that was taken away for a line, or shows old numbers, is drawn when its time has come.
    const bool wants_bar =
        state.options.err_is_terminal && state.event && (state.event_is_new || !state.drawn);
    const auto woken = [&] { return !state.pending.empty() || state.closing; };
    if (wants_bar) {
      state.changed.wait_until(lock, state.next_draw, woken);
    } else {
      state.changed.wait(lock, [&] { return woken() || state.event_is_new; });
    }
    const bool last = state.closing;
    const std::vector<State::Chunk> chunks = std::exchange(state.pending, {});
    const bool due = wants_bar && !last && BarClock::now() >= state.next_draw;
    const auto event = due ? state.event : std::nullopt;
    if (due || !state.options.err_is_terminal) state.event_is_new = false;
    lock.unlock();

    state.write_chunks(chunks);
    if (event) state.draw(*event);
    if (last) state.erase();

    lock.lock();
    state.pending_bytes = 0;
    for (const State::Chunk& chunk : state.pending) state.pending_bytes += chunk.text.size();
    if (state.congested && state.pending_bytes <= kMostPendingBytes) {
      state.congested = false;
      ::eventfd_write(state.wake.get(), 1);
    }
    if (last && state.pending.empty()) break;
  }
  state.closed = true;
  state.changed.notify_all();
}

LiveBar::LiveBar(LiveBarOptions options) : state_(std::make_shared<State>(std::move(options))) {
  // Signals are for the thread that supervises; only a broken pipe belongs to the one that writes.
  sigset_t others, before;
  ::sigfillset(&others);
  ::sigdelset(&others, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &others, &before);
  thread_ = std::thread([state = state_] { write_loop(*state); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LiveBar::LiveBar(const Console& console)
    : LiveBar(LiveBarOptions{.out_is_terminal = ::isatty(STDOUT_FILENO) == 1,
                             .err_is_terminal = console.err_is_terminal(),
                             .colour = console.colour(),
                             .width = [] { return Console::of_process().width(); }}) {}

LiveBar::~LiveBar() { finish(); }

void LiveBar::update(const track::ProgressEvent& event) {
  if (!state_->options.err_is_terminal) {
    bool wanted = false;
    {
      const std::lock_guard lock(state_->mutex);
      wanted = state_->pace.wants(event);
    }
    if (wanted) print_err(render_plain(event));
    return;
  }
  const std::lock_guard lock(state_->mutex);
  state_->event = event;
  state_->event_is_new = true;
  state_->changed.notify_all();
}

void LiveBar::print_out(std::string_view line) { state_->put(state_->options.out_fd, line); }
void LiveBar::print_err(std::string_view line) { state_->put(state_->options.err_fd, line); }

bool LiveBar::congested() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->congested) {
    eventfd_t times = 0;
    ::eventfd_read(state_->wake.get(), &times);
  }
  return state_->congested;
}

int LiveBar::wake_fd() const { return state_->wake.get(); }

bool LiveBar::finish(double patience_s) {
  if (!thread_.joinable()) return true;
  std::unique_lock lock(state_->mutex);
  state_->closing = true;
  state_->changed.notify_all();
  const auto closed = [this] { return state_->closed; };
  if (patience_s < 0) {
    state_->changed.wait(lock, closed);
  } else if (!state_->changed.wait_for(lock, std::chrono::duration<double>(patience_s), closed)) {
    thread_.detach();
    return false;
  }
  lock.unlock();
  thread_.join();
  return true;
}

std::string LiveBar::trouble() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failed_errno == 0 ? "" : errno_text(state_->failed_errno);
}

}  // namespace muster::program
