#include "muster/distributed/monitor/monitor_loop.h"

#include <algorithm>
#include <utility>

#include <pthread.h>

#include "muster/distributed/monitor/monitor_core.h"

namespace muster::distributed {

void MonitorLoop::add(std::shared_ptr<Monitor> monitor) {
  const std::lock_guard lock(mutex_);
  monitors_.push_back(monitor);
  monitor->wake();  // the loop looks at its list
  if (std::exchange(runs_, true)) return;
  if (thread_.joinable()) thread_.detach();  // an earlier one that looks at nothing any more
  thread_ = std::thread([self = shared_from_this()] { self->run(); });
}

void MonitorLoop::remove(const Monitor& monitor) {
  std::thread ended;
  {
    std::unique_lock lock(mutex_);
    if (runner_ == std::this_thread::get_id()) {
      drops_itself_ = true;
      return;
    }
    changed_.wait(lock, [&] {
      return std::none_of(monitors_.begin(), monitors_.end(), [&](const auto& each) {
        return each.get() == &monitor;
      });
    });
    if (!runs_) ended.swap(thread_);
  }
  if (ended.joinable()) ended.join();
}

void MonitorLoop::run() {
  ::pthread_setname_np(::pthread_self(), "muster-watch");  // for debuggers, and to be counted by
  std::unique_lock lock(mutex_);
  runner_ = std::this_thread::get_id();
  while (look_at_all(lock)) {
  }
}

/// Once, then waits until something is new, or one of them wants to look again. With the lock.
/// False, without it, when there is none left: the thread must not touch the loop any more.
bool MonitorLoop::look_at_all(std::unique_lock<std::mutex>& lock) {
  std::shared_ptr<Monitor> first = monitors_.front();
  const uint64_t seen = first->version();
  auto next = Monitor::Clock::time_point::max();
  for (auto at = monitors_.begin(); at != monitors_.end();) {
    std::shared_ptr<Monitor> monitor = *at;
    lock.unlock();
    const bool goes_on = monitor->look(next);
    lock.lock();
    at = goes_on ? std::next(at) : monitors_.erase(at);
    runs_ = !monitors_.empty();
    const bool is_over = !runs_;
    if (is_over) runner_ = {};
    // Perhaps nobody is there to join.
    if (is_over && std::exchange(drops_itself_, false) && thread_.joinable()) thread_.detach();
    changed_.notify_all();
    lock.unlock();
    monitor.reset();  // perhaps the last who holds it
    if (is_over) return false;
    lock.lock();
  }
  lock.unlock();
  first->wait_until(seen, next);
  first.reset();
  lock.lock();
  return true;
}

}  // namespace muster::distributed
