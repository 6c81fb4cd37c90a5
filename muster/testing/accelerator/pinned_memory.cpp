#include "muster/testing/accelerator/pinned_memory.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

namespace muster::testing {
namespace {

constexpr size_t kPinnedStep = 64;

struct PinnedRanges {
  std::mutex mutex;
  std::map<const char*, size_t> bytes;  // by start
};

PinnedRanges& pinned_ranges() {
  static auto* const ranges = new PinnedRanges;
  return *ranges;
}

void free_pinned(void* pointer) {
  if (pointer == nullptr) return;
  {
    const std::lock_guard lock(pinned_ranges().mutex);
    pinned_ranges().bytes.erase(static_cast<const char*>(pointer));
  }
  std::free(pointer);
}

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const size_t rounded =
        (std::max<size_t>(bytes, 1) + kPinnedStep - 1) / kPinnedStep * kPinnedStep;
    void* const start = std::aligned_alloc(kPinnedStep, rounded);
    if (start == nullptr) throw std::bad_alloc();
    const std::lock_guard lock(pinned_ranges().mutex);
    pinned_ranges().bytes[static_cast<const char*>(start)] = rounded;
    return {start, start, &free_pinned, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

c10::Allocator* pinned_allocator() {
  static auto* const allocator = new PinnedAllocator;
  return allocator;
}

bool is_pinned(const void* pointer) {
  const auto* const at = static_cast<const char*>(pointer);
  const std::lock_guard lock(pinned_ranges().mutex);
  auto found = pinned_ranges().bytes.upper_bound(at);
  if (found == pinned_ranges().bytes.begin()) return false;
  --found;
  return at < found->first + found->second;
}

}  // namespace muster::testing
