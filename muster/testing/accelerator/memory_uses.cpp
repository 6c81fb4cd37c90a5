#include "muster/testing/accelerator/memory_uses.h"

#include <utility>

namespace muster::testing {
namespace {

constexpr size_t kMostUses = 1024;

/// Whoever races with `old` later on races with `use`, too, or knows of both.
bool stands_for(const MemoryUse& use, const MemoryUse& old, const StreamOrder& order) {
  if (!order.stream_knows(use.moment.stream, old.moment) || !use.bytes.covers(old.bytes))
    return false;
  return use.write || (!old.write && old.moment.stream == use.moment.stream);
}

}  // namespace

const MemoryUse* MemoryUses::race_of(const MemoryUse& use, const StreamOrder& order) const {
  for (const MemoryUse& old : uses_) {
    const bool matters = old.write || use.write;
    if (matters && !order.stream_knows(use.moment.stream, old.moment) &&
        old.bytes.overlaps(use.bytes))
      return &old;
  }
  return nullptr;
}

void MemoryUses::add(MemoryUse use, const StreamOrder& order) {
  std::erase_if(uses_, [&](const MemoryUse& old) {
    return order.host_knows(old.moment) || stands_for(use, old, order);
  });
  if (uses_.size() == kMostUses) uses_.erase(uses_.begin());
  uses_.push_back(std::move(use));
}

}  // namespace muster::testing
