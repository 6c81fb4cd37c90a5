// The thread that looks after the groups of a rank.
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

namespace muster::distributed {

class Monitor;

/// Calls Monitor::tick of its monitors, whose heartbeats share a thread, too. Its own runs as long
/// as there is one. See Note [Groups of groups].
class MonitorLoop : public std::enable_shared_from_this<MonitorLoop> {
 public:
  void add(std::shared_ptr<Monitor> monitor);
  /// Of one that is stopping: returns when it is not looked at any more. On the loop's own thread,
  /// in a callback that drops a group, at once.
  void remove(const Monitor& monitor);

 private:
  void run();
  bool look_at_all(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::shared_ptr<Monitor>> monitors_;
  bool runs_ = false;
  bool drops_itself_ = false;  // a callback of the loop's thread has dropped a group
  std::thread::id runner_;
  std::thread thread_;
};

}  // namespace muster::distributed
