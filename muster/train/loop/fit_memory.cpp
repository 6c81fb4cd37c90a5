// What fit() notes of a device's memory, for the report when it runs out.
#include <string>

#include "muster/base/error.h"
#include "muster/memory/allocator/counters.h"
#include "muster/memory/tracker/recent.h"
#include "muster/train/loop/training.h"

namespace muster::train::detail {

/// Behind each step: the allocator's lock, and a copy of its counters.
void Trainer::note_memory() {
  if (!is_late() || !counts_memory_) return;
  try {
    memory::note_iteration(
        device_,
        {.iteration = position_.step, .end_bytes = memory::device_counters(device_).current});
  } catch (const Error&) {  // a kind of device that does not count
    counts_memory_ = false;
  }
}

std::vector<memory::OwnedTensor> Trainer::owned_memory() noexcept {
  std::vector<memory::OwnedTensor> all;
  try {
    if (!module_) return all;
    all = memory::owned_tensors(module());
    for (const auto& part : parts_) {
      for (const auto& [name, tensor] : part->optimizer().state()) {
        const size_t begin = name.find('/') + 1, end = name.rfind('.');  // "momentum/fc1.weight"
        const bool has_layer = end != std::string::npos && end > begin;
        all.push_back({tensor,
                       memory::Owner::kOptimizerState,
                       has_layer ? name.substr(begin, end - begin) : ""});
      }
    }
  } catch (...) {  // what is there is told
  }
  return all;
}

}  // namespace muster::train::detail
