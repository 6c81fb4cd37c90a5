#include "muster/tune/schedule/asha/promotion_rung.h"

#include <algorithm>
#include <cmath>

namespace muster::tune {

void PromotionRung::enter_top(const Key& key) {
  top_.push_back(key);
  std::push_heap(top_.begin(), top_.end());
  if (trials_[key.second].waits) promotable_.insert(key);
}

void PromotionRung::leave_top() {
  std::pop_heap(top_.begin(), top_.end());
  const Key key = top_.back();
  top_.pop_back();
  promotable_.erase(key);
  rest_.push_back(key);
  std::push_heap(rest_.begin(), rest_.end(), std::greater<>());
}

uint32_t PromotionRung::add(int64_t number, double score) {
  const auto place = static_cast<uint32_t>(trials_.size());
  trials_.push_back({number, score, false});
  rest_.push_back(key_of(place));
  std::push_heap(rest_.begin(), rest_.end(), std::greater<>());
  // The new one may displace the worst of the top; the top then grows if n / eta passed a whole
  // number.
  const auto wanted = static_cast<size_t>(std::floor(static_cast<double>(size()) / eta_));
  while (top_.size() < wanted ||
         (!top_.empty() && !rest_.empty() && rest_.front() < top_.front())) {
    std::pop_heap(rest_.begin(), rest_.end(), std::greater<>());
    const Key best = rest_.back();
    rest_.pop_back();
    enter_top(best);
    if (top_.size() > wanted) leave_top();
  }
  return place;
}

void PromotionRung::wait(uint32_t place) {
  trials_[place].waits = true;
  const bool in_top = !top_.empty() && key_of(place) <= top_.front();
  if (in_top) promotable_.insert(key_of(place));
}

std::optional<int64_t> PromotionRung::promote_best() {
  if (promotable_.empty()) return std::nullopt;
  const uint32_t place = promotable_.begin()->second;
  leave(place);
  return trials_[place].number;
}

void PromotionRung::leave(uint32_t place) {
  trials_[place].waits = false;
  promotable_.erase(key_of(place));
}

}  // namespace muster::tune
