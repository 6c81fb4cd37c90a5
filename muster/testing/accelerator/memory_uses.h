// Who used a block of memory, as far as it can still matter.
#pragma once

#include <string>
#include <vector>

#include "muster/testing/accelerator/byte_set.h"
#include "muster/testing/accelerator/stream_order.h"

namespace muster::testing {

struct MemoryUse {
  ByteSet bytes;
  bool write = false;
  Moment moment;
  const std::string* op = nullptr;  // lives as long as the process
};

/// Of one block. Note [Races].
class MemoryUses {
 public:
  /// An earlier use that `use` does not wait for, though one of the two writes what both use.
  const MemoryUse* race_of(const MemoryUse& use, const StreamOrder& order) const;
  /// From the second thousand on the oldest is forgotten: a race may be missed, none is made up.
  void add(MemoryUse use, const StreamOrder& order);

  const std::vector<MemoryUse>& all() const { return uses_; }
  void clear() { uses_.clear(); }

 private:
  std::vector<MemoryUse> uses_;
};

}  // namespace muster::testing
