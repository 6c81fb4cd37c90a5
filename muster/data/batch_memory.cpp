#include "muster/data/batch_memory.h"

#include <mutex>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/Storage.h>
#include <c10/util/accumulate.h>

namespace muster::data {
namespace {

thread_local BatchMemory* memory_in_use = nullptr;
thread_local bool pinned_in_use = false;

size_t bytes_of(at::IntArrayRef sizes, at::ScalarType dtype) {
  return static_cast<size_t>(c10::multiply_integers(sizes)) * c10::elementSize(dtype);
}

}  // namespace

struct BatchMemory::Block {
  c10::DataPtr data;
  size_t bytes = 0;
};

struct BatchMemory::Shelf {
  explicit Shelf(size_t most_kept) : most(most_kept) { blocks.reserve(most + 1); }

  /// A kept block that fits, the smallest, and no more than twice as large; else a new one.
  Block take(size_t bytes) {
    {
      const std::lock_guard lock(mutex);
      auto best = blocks.end();
      for (auto block = blocks.begin(); block != blocks.end(); ++block) {
        const bool fits = block->bytes >= bytes && block->bytes / 2 <= bytes;
        if (fits && (best == blocks.end() || block->bytes < best->bytes)) best = block;
      }
      if (best != blocks.end()) {
        Block taken = std::move(*best);
        blocks.erase(best);
        return taken;
      }
      ++made;
    }
    return {c10::GetCPUAllocator()->allocate(bytes), bytes};
  }

  /// What does not stay is freed outside of the lock. Does not throw: there is room.
  void put(Block block) {
    Block oldest;
    const std::lock_guard lock(mutex);
    if (is_resting || most == 0) {
      std::swap(oldest, block);
      return;
    }
    blocks.push_back(std::move(block));
    if (blocks.size() <= most) return;
    oldest = std::move(blocks.front());
    blocks.erase(blocks.begin());
  }

  const size_t most;
  mutable std::mutex mutex;
  bool is_resting = true;
  int64_t made = 0;
  std::vector<Block> blocks;  // that nobody holds, the oldest first
};

/// A block that is out, and where it goes back to.
struct BatchMemory::Lease {
  std::shared_ptr<Shelf> shelf;
  Block block;

  static void end(void* context) {
    const std::unique_ptr<Lease> lease(static_cast<Lease*>(context));
    lease->shelf->put(std::move(lease->block));
  }
};

BatchMemory::BatchMemory(size_t most_kept) : shelf_(std::make_shared<Shelf>(most_kept)) {}
BatchMemory::~BatchMemory() { rest(); }

at::Tensor BatchMemory::empty(at::IntArrayRef sizes, at::ScalarType dtype) {
  const size_t bytes = bytes_of(sizes, dtype);
  std::unique_ptr<Lease> lease(new Lease{shelf_, shelf_->take(bytes)});
  void* data = lease->block.data.get();
  c10::DataPtr lent(data, lease.release(), &Lease::end, c10::Device(c10::kCPU));
  c10::Storage storage(c10::Storage::use_byte_size_t(),
                       bytes,
                       std::move(lent),
                       c10::GetCPUAllocator(),
                       /*resizable=*/true);
  at::Tensor tensor = at::empty({0}, at::TensorOptions(dtype));
  tensor.set_(std::move(storage), 0, sizes);
  return tensor;
}

void BatchMemory::wake() {
  const std::lock_guard lock(shelf_->mutex);
  shelf_->is_resting = false;
}

void BatchMemory::rest() {
  std::vector<Block> freed;
  freed.reserve(shelf_->most + 1);
  const std::lock_guard lock(shelf_->mutex);
  shelf_->is_resting = true;
  std::swap(freed, shelf_->blocks);
}

int64_t BatchMemory::made() const {
  const std::lock_guard lock(shelf_->mutex);
  return shelf_->made;
}

size_t BatchMemory::kept() const {
  const std::lock_guard lock(shelf_->mutex);
  return shelf_->blocks.size();
}

BatchMemory::Use::Use(BatchMemory* memory, bool pinned)
    : memory_before_(std::exchange(memory_in_use, memory)),
      pinned_before_(std::exchange(pinned_in_use, pinned)) {}

BatchMemory::Use::~Use() {
  memory_in_use = memory_before_;
  pinned_in_use = pinned_before_;
}

at::Tensor batch_tensor(at::IntArrayRef sizes, at::ScalarType dtype, bool pinned) {
  const bool is_lent =
      memory_in_use != nullptr && !pinned && bytes_of(sizes, dtype) >= BatchMemory::kLeastBytes;
  if (is_lent) return memory_in_use->empty(sizes, dtype);
  return at::empty(sizes, at::TensorOptions(dtype).pinned_memory(pinned));
}

bool makes_pinned_batch() { return pinned_in_use; }

}  // namespace muster::data
