// The groups that the thread ranks of one world have made, one after the other or at once.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "muster/distributed/thread/thread_exchange.h"

namespace muster::distributed {

/// A rank's n-th group is everybody's n-th, as with processes: each has an exchange of its own, so
/// that operations of one are not taken for those of another. Any thread.
class ThreadGroups {
 public:
  explicit ThreadGroups(int world_size) : made_(static_cast<size_t>(world_size), 0) {}

  struct Place {
    size_t number;
    std::shared_ptr<ThreadExchange> exchange;
  };
  /// The next group of this rank. `first` is the exchange of group 0.
  Place next(int rank, const std::shared_ptr<ThreadExchange>& first);

  /// The rank takes part in no group any more, made or not.
  void leave(int rank, const std::string& why, ThreadExchange& first);

  /// All ranks come anew, with groups of their own. No rank is at work.
  void begin_again();

 private:
  std::mutex mutex_;
  std::vector<size_t> made_;                             // by rank
  std::vector<std::shared_ptr<ThreadExchange>> others_;  // of group 1 and on
  std::map<int, std::string> left_;
};

}  // namespace muster::distributed
