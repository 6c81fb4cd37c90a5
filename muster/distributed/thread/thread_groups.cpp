#include "muster/distributed/thread/thread_groups.h"

#include <algorithm>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace muster::distributed {

ThreadGroups::Place ThreadGroups::next(int rank, const Place& first) {
  const std::lock_guard lock(mutex_);
  const size_t number = made_[static_cast<size_t>(rank)]++;
  if (number == 0) return first;
  std::erase_if(others_, [](const auto& other) { return other.second.exchange.expired(); });
  Other& other = others_[number];
  if (other.came == 0) {
    other.place = {std::make_shared<ThreadExchange>(first.exchange->world_size()),
                   c10::make_intrusive<c10d::HashStore>()};
    other.place.store->setTimeout(first.store->getTimeout());
    other.exchange = other.place.exchange;
    for (const auto& [gone, why] : left_) other.place.exchange->leave(gone, why);
  }
  const Place place = other.place;
  if (++other.came == made_.size()) other.place = {};
  return place;
}

void ThreadGroups::leave(int rank, const std::string& why, ThreadExchange& first) {
  std::vector<std::shared_ptr<ThreadExchange>> others;
  {
    const std::lock_guard lock(mutex_);
    left_.emplace_back(rank, why);
    for (const auto& [number, other] : others_) others.push_back(other.exchange.lock());
  }
  first.leave(rank, why);
  for (const auto& exchange : others)
    if (exchange) exchange->leave(rank, why);
}

void ThreadGroups::begin_again() {
  std::map<size_t, Other> over;  // dropped without the lock
  const std::lock_guard lock(mutex_);
  if (left_.empty()) return;
  left_.clear();
  over.swap(others_);
  // Group 0 may be one that ranks have left without making it.
  const size_t next = std::max<size_t>(*std::max_element(made_.begin(), made_.end()), 1);
  std::fill(made_.begin(), made_.end(), next);
}

}  // namespace muster::distributed
