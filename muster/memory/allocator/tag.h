// Who allocates: for allocators of other devices that keep it with their blocks.
#pragma once

#include <cstdint>
#include <string>

#include "muster/memory/allocator/block.h"

namespace muster::memory {

/// What the calling thread is doing. Scope, operator and layer are numbers of names: of scopes always, of the
/// others while a Recording tells operators apart.
struct BlockTag {
  uint32_t scope = 0, op = 0, layer = 0;
  uint32_t iteration = 0;
  Owner owner = Owner::kOther;
};

/// Of an allocation of so many bytes. A few loads and, seldom, a lock.
BlockTag this_thread_tag(int64_t bytes);

/// The name of a scope or an operator, and of a layer.
std::string tag_name(uint32_t id);
std::string tag_layer(uint32_t id);

}  // namespace muster::memory
