// Host memory that copies to and from fake devices need not wait for.
#pragma once

#include <c10/core/Allocator.h>

namespace muster::testing {

/// Lives as long as the process.
c10::Allocator* pinned_allocator();
/// So that LibTorch counts it (at::getHostAllocator). Once.
void register_pinned_allocator();
bool is_pinned(const void* pointer);

}  // namespace muster::testing
