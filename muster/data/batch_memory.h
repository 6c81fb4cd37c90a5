// Memory of batches that is used again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

namespace muster::data {

// Note [Batch memory]
// 64 images of 3 x 224 x 224 floats are 38 MB. malloc asks the kernel for so much each time and gives it
// back when it is freed: every batch pays for 9,400 pages anew, each a fault and a page of zeros. So a
// loader has blocks of its own. A block is the memory of one tensor's storage and comes back when that
// storage goes, by its deleter: who keeps a batch, or a view of it, keeps its block, and nobody else
// writes to it. There is nothing to count, and nothing that a user could do wrong.
//
// Blocks that nobody holds are kept while an epoch runs, about as many as batches are made ahead. A
// loader between two epochs has none.
//
// Pinned memory is not of here: LibTorch's pinned allocator is such a pool already, and lends a block
// again only behind the events of the copies that read it.

/// The blocks of one loader. Any thread.
class BatchMemory {
 public:
  /// Smaller tensors are malloc's, which is good at them.
  static constexpr size_t kLeastBytes = 1 << 20;

  /// At most so many blocks are kept that nobody holds. It rests.
  explicit BatchMemory(size_t most_kept);
  /// Tensors that are held live on.
  ~BatchMemory();
  BatchMemory(const BatchMemory&) = delete;
  BatchMemory& operator=(const BatchMemory&) = delete;

  /// On the CPU, contiguous, with whatever was there before. It can be resized like any other.
  at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype);

  /// From now on what comes back is kept; or it is not, and what was kept is freed.
  void wake();
  void rest();

  /// Blocks that were got from the allocator so far, and that are kept now.
  int64_t made() const;
  size_t kept() const;

  /// While it lives, the calling thread makes a batch for a loader with that memory.
  class Use {
   public:
    Use(BatchMemory* memory, bool pinned);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    BatchMemory* memory_before_;
    bool pinned_before_;
  };

 private:
  struct Block;
  struct Shelf;
  struct Lease;
  std::shared_ptr<Shelf> shelf_;  // shared with the blocks that are out
};

/// For a tensor of a batch // [sizes] of the CPU: pinned, or of the loader's blocks where the calling
/// thread makes a batch for one and it is large, else as at::empty().
at::Tensor batch_tensor(at::IntArrayRef sizes, at::ScalarType dtype, bool pinned);

/// Whether the batch that the calling thread makes is going to a device: SampleContext::pinned of the
/// loader, for steps that are not told.
bool makes_pinned_batch();

}  // namespace muster::data
