// What a thread reads at this moment, for whoever waits for it.
#pragma once

#include <mutex>
#include <string>
#include <utility>

namespace muster::data {

/// Of one thread. Any thread may ask.
class InHand {
 public:
  void set(std::string what) {
    const std::lock_guard lock(mutex_);
    what_ = std::move(what);
  }
  /// "" where nothing was said since the last set("").
  std::string what() const {
    const std::lock_guard lock(mutex_);
    return what_;
  }

 private:
  mutable std::mutex mutex_;
  std::string what_;
};

namespace detail {
/// Where the calling thread says it. Null: nobody asks.
inline thread_local InHand* own_hand = nullptr;
}  // namespace detail

/// Called by datasets and transforms before what may not come back: a file that is read, a user's own
/// code. `words()` makes "sample 3 of photos: cat/1.jpg", and is called only where somebody asks.
template <class Words>
void note_in_hand(const Words& words) {
  if (detail::own_hand != nullptr) detail::own_hand->set(words());
}

}  // namespace muster::data
