#include "muster/distributed/thread/thread_groups.h"

#include <algorithm>

namespace muster::distributed {

ThreadGroups::Place ThreadGroups::next(int rank, const std::shared_ptr<ThreadExchange>& first) {
  const std::lock_guard lock(mutex_);
  const size_t number = made_[static_cast<size_t>(rank)]++;
  if (number == 0) return {0, first};
  if (number > others_.size()) {
    others_.push_back(std::make_shared<ThreadExchange>(first->world_size()));
    for (const auto& [gone, why] : left_) others_.back()->leave(gone, why);
  }
  return {number, others_[number - 1]};
}

void ThreadGroups::leave(int rank, const std::string& why, ThreadExchange& first) {
  std::vector<std::shared_ptr<ThreadExchange>> others;
  {
    const std::lock_guard lock(mutex_);
    left_.emplace(rank, why);
    others = others_;
  }
  first.leave(rank, why);
  for (const auto& exchange : others) exchange->leave(rank, why);
}

void ThreadGroups::begin_again() {
  const std::lock_guard lock(mutex_);
  if (left_.empty()) return;
  left_.clear();
  // Group 0 may be one that ranks have left without making it.
  const size_t next = std::max<size_t>(*std::max_element(made_.begin(), made_.end()), 1);
  std::fill(made_.begin(), made_.end(), next);
}

}  // namespace muster::distributed
