#include "muster/launch/io/event_loop.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "muster/base/duration.h"
#include "muster/base/error.h"

namespace muster::launch {
namespace {

UniqueFd checked(int fd, const char* what) {
  if (fd >= 0) return UniqueFd(fd);
  throw environment_error({.refused = std::string("cannot make ") + what,
                           .rule = errno_text(errno),
                           .hint = "raise the limit on descriptors: ulimit -n"});
}

void change(int epoll, int operation, int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll, operation, fd, &event) != 0 && operation == EPOLL_CTL_ADD) {
    throw environment_error({.refused = "cannot wait for a descriptor", .rule = errno_text(errno)});
  }
}

}  // namespace

EventLoop::EventLoop() : epoll_(checked(::epoll_create1(EPOLL_CLOEXEC), "an epoll")) {}

void EventLoop::add(int fd, Handler on_readable) {
  change(epoll_.get(), EPOLL_CTL_ADD, fd, EPOLLIN);
  handlers_[fd] = std::move(on_readable);
}

void EventLoop::forget(int fd) {
  if (handlers_.erase(fd) > 0) change(epoll_.get(), EPOLL_CTL_DEL, fd, 0);
}

// A hang-up is reported whatever events are asked for, so a paused descriptor leaves the set.
void EventLoop::pause(int fd) {
  if (handlers_.contains(fd)) change(epoll_.get(), EPOLL_CTL_DEL, fd, 0);
}

void EventLoop::resume(int fd) {
  if (handlers_.contains(fd)) change(epoll_.get(), EPOLL_CTL_ADD, fd, EPOLLIN);
}

void EventLoop::wait_for(int fd, For what) {
  if (handlers_.contains(fd))
    change(epoll_.get(), EPOLL_CTL_MOD, fd, what == For::kRead ? EPOLLIN : EPOLLOUT);
}

void EventLoop::wait() {
  while (!wait(-1.0)) {
  }
}

bool EventLoop::wait(double timeout_s) {
  epoll_event events[64];
  // Rounded up, so that what is due at a time is due after the wait for it; at most a day.
  const int timeout_ms =
      timeout_s < 0 ? -1 : static_cast<int>(std::ceil(std::min(timeout_s, 86400.0) * 1e3));
  const int count = ::epoll_wait(epoll_.get(), events, 64, timeout_ms);
  if (count < 0 && errno != EINTR)
    throw internal_error({.refused = "epoll_wait", .rule = errno_text(errno)});
  for (int i = 0; i < count; ++i) {
    const auto found = handlers_.find(events[i].data.fd);
    if (found == handlers_.end()) continue;  // forgotten by a handler before it
    const Handler handler = found->second;   // it may forget itself
    handler();
  }
  return count > 0;
}

Timer::Timer()
    : fd_(checked(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "a timer")) {}

void Timer::arm(double seconds) {
  itimerspec when{};
  const auto wait = std::max(bounded_wait(seconds), std::chrono::nanoseconds(1));  // 0 disarms
  const auto whole = std::chrono::floor<std::chrono::seconds>(wait);
  when.it_value.tv_sec = whole.count();
  when.it_value.tv_nsec = (wait - whole).count();
  ::timerfd_settime(fd_.get(), 0, &when, nullptr);
}

void Timer::clear() {
  uint64_t times = 0;
  [[maybe_unused]] const ssize_t got = ::read(fd_.get(), &times, sizeof times);
}

}  // namespace muster::launch
