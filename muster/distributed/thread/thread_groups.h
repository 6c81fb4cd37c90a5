// The groups that the thread ranks of one world have made, one after the other or at once.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "muster/distributed/thread/thread_exchange.h"

namespace muster::distributed {

/// A rank's n-th group is everybody's n-th, as with processes: each has an exchange and a store of its
/// own, so that operations of one are not taken for those of another. They last as long as somebody
/// has a handle on the group, or may still come for one. Any thread.
class ThreadGroups {
 public:
  explicit ThreadGroups(int world_size) : made_(static_cast<size_t>(world_size), 0) {}

  struct Place {
    std::shared_ptr<ThreadExchange> exchange;
    c10::intrusive_ptr<c10d::Store> store;
  };
  /// The next group of this rank. `first` is where group 0 is.
  Place next(int rank, const Place& first);

  /// The rank takes part in no group any more, made or not.
  void leave(int rank, const std::string& why, ThreadExchange& first);

  /// All ranks come anew, with groups of their own. No rank is at work.
  void begin_again();

 private:
  struct Other {
    Place place;  // empty once every rank has come for it
    std::weak_ptr<ThreadExchange> exchange;
    size_t came = 0;
  };

  std::mutex mutex_;
  std::vector<size_t> made_;                       // by rank
  std::map<size_t, Other> others_;                 // group 1 and on, by number
  std::vector<std::pair<int, std::string>> left_;  // rank and why, as they left
};

}  // namespace muster::distributed
