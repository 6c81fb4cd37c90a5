// Waiting for several descriptors at once. Private to the room.
#pragma once

#include <functional>
#include <unordered_map>

#include "muster/base/file.h"

namespace muster::launch {

/// Calls a function when a descriptor is readable (or closed by its other side), by epoll. One
/// thread.
class EventLoop {
 public:
  using Handler = std::function<void()>;

  /// Throws an environment error.
  EventLoop();

  /// The descriptor stays the caller's, who must `forget` it before closing it.
  void add(int fd, Handler on_readable);
  void forget(int fd);

  /// A paused descriptor keeps its handler but wakes nobody.
  void pause(int fd);
  void resume(int fd);

  /// What a watched descriptor is waited for; kRead at first. Errors and hang-ups always count.
  enum class For { kRead, kWrite };
  void wait_for(int fd, For what);

  /// Blocks until at least one handler has run.
  void wait();
  /// The same for at most so long (< 0: no limit, 0: what is there); false if time was up.
  bool wait(double timeout_s);

 private:
  UniqueFd epoll_;
  std::unordered_map<int, Handler> handlers_;
};

/// A one-shot alarm that an EventLoop can watch.
class Timer {
 public:
  Timer();
  int fd() const { return fd_.get(); }
  void arm(double seconds);  ///< replaces an earlier time; 0 and less fire at once
  void clear();              ///< takes the alarm in after it fired

 private:
  UniqueFd fd_;
};

}  // namespace muster::launch
