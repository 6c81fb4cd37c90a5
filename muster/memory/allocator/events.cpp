#include "muster/memory/allocator/events.h"

#include <algorithm>
#include <chrono>

namespace muster::memory {

void EventRing::begin(size_t most) {
  std::vector<AllocationEvent> slots(most);
  const std::lock_guard lock(mutex_);
  slots_.swap(slots);
  added_ = 0;
  on_.store(!slots_.empty(), std::memory_order_release);
}

void EventRing::end() {
  std::vector<AllocationEvent> slots;
  const std::lock_guard lock(mutex_);
  on_.store(false, std::memory_order_release);
  slots_.swap(slots);
}

void EventRing::add(AllocationEvent event) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  event.unix_us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  const std::lock_guard lock(mutex_);
  if (slots_.empty()) return;
  slots_[added_++ % slots_.size()] = event;
}

EventRing::Kept EventRing::kept() const {
  const std::lock_guard lock(mutex_);
  Kept kept;
  const uint64_t count = std::min<uint64_t>(added_, slots_.size());
  kept.forgotten = added_ - count;
  kept.events.reserve(count);
  for (uint64_t i = added_ - count; i < added_; ++i)
    kept.events.push_back(slots_[i % slots_.size()]);
  return kept;
}

EventRing& cpu_events() {
  static auto* const ring = new EventRing;  // blocks are freed for as long as the process lives
  return *ring;
}

}  // namespace muster::memory
