#include "muster/testing/accelerator/stream_order.h"

#include <algorithm>

namespace muster::testing {

void VectorClock::join(const VectorClock& other) {
  if (times_.size() < other.times_.size()) times_.resize(other.times_.size());
  for (size_t i = 0; i < other.times_.size(); ++i) times_[i] = std::max(times_[i], other.times_[i]);
}

uint64_t VectorClock::advance(size_t stream) {
  if (times_.size() <= stream) times_.resize(stream + 1);
  return ++times_[stream];
}

size_t StreamOrder::number_of(StreamName name) {
  const auto [found, fresh] = numbers_.try_emplace(name, names_.size());
  if (fresh) {
    names_.push_back(name);
    clocks_.emplace_back();
  }
  return found->second;
}

Moment StreamOrder::queue(size_t stream) {
  VectorClock& clock = clocks_.at(stream);
  clock.join(host_);
  return {stream, clock.advance(stream)};
}

VectorClock StreamOrder::mark(size_t stream) {
  VectorClock& clock = clocks_.at(stream);
  clock.join(host_);
  return clock;
}

}  // namespace muster::testing
