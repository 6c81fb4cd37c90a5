// Where a slow searcher thinks while its tuner does other things. Private to the room.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace muster::tune {

/// A thread that thinks for a loop.
class Thinker {
 public:
  Thinker() = default;
  ~Thinker();  ///< waits for what is being thought
  Thinker(const Thinker&) = delete;
  Thinker& operator=(const Thinker&) = delete;

  /// Begins, after the one before. Waits a moment, as most are quick. Returns whether it is done.
  bool begin(std::function<void()> think);
  bool is_busy() const;

 private:
  void work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> think_;  // empty: nothing to do
  bool ends_ = false;
  std::thread thread_;  // from the first begin() on
};

}  // namespace muster::tune
