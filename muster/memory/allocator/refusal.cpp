#include "muster/memory/allocator/refusal.h"

#include <atomic>

#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/allocator/maker.h"
#include "muster/memory/allocator/names.h"
#include "muster/memory/allocator/thread_state.h"

namespace muster::memory {
namespace {

std::atomic<RefusalListener> refusal_listener{nullptr};

}  // namespace

BlockTag this_thread_tag(int64_t bytes) {
  const Maker maker = maker_of(recorded_level(), bytes);
  return {.scope = maker.scope,
          .op = maker.op,
          .layer = this_thread_state.layer,
          .iteration = memory_iteration(),
          .owner = maker.in_backward    ? Owner::kGradient
                   : maker.builds_graph ? Owner::kActivation
                                        : Owner::kOther};
}

std::string tag_name(uint32_t id) { return name_of(id); }
std::string tag_layer(uint32_t id) { return layer_of(id); }

void set_refusal_listener(RefusalListener listener) {
  refusal_listener.store(listener, std::memory_order_release);
}

bool refusals_are_heard() { return refusal_listener.load(std::memory_order_acquire) != nullptr; }

void tell_refusal(const Refusal& refusal) noexcept {
  const RefusalListener listener = refusal_listener.load(std::memory_order_acquire);
  if (listener == nullptr) return;
  try {
    listener(refusal);
  } catch (...) {  // the refusal itself is what counts
  }
}

}  // namespace muster::memory
