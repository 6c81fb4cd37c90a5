#include "muster/distributed/shm/shm_slices.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "muster/distributed/shm/shm_reduce.h"

namespace muster::distributed {
namespace {

using c10d::ReduceOp;

constexpr size_t kCacheLine = 64;

class SlicedReduction {
 public:
  SlicedReduction(ShmSteps& steps,
                  std::byte* data,
                  size_t size,
                  ReduceOp::RedOpType op,
                  at::ScalarType dtype,
                  int root)
      : steps_(steps),
        data_(data),
        size_(size),
        op_(op),
        dtype_(dtype),
        root_(root),
        world_(steps.world_size()),
        piece_(steps.segment().slot_bytes()) {}

  void run() {
    const size_t pieces = (size_ + piece_ - 1) / piece_;
    for (size_t p = 0; p <= pieces; ++p) {
      if (p < pieces) write(p);
      if (p > 0) reduce(p - 1);
      steps_.turn();
      if (p > 0 && takes(steps_.rank())) copy_sums(p - 1);
    }
  }

 private:
  struct Range {
    size_t from, size;
  };

  bool takes(int rank) const { return root_ < 0 || root_ == rank; }

  size_t length(size_t piece) const { return std::min(piece_, size_ - piece * piece_); }

  /// Rank r's slice of a piece, in bytes from the piece's start.
  Range slice(size_t piece, int r) const {
    const size_t world = static_cast<size_t>(world_) * kCacheLine;
    const size_t each = (length(piece) + world - 1) / world * kCacheLine;
    const size_t from = std::min(length(piece), static_cast<size_t>(r) * each);
    return {from, std::min(each, length(piece) - from)};
  }

  void write(size_t p) const {
    const std::byte* from = data_ + p * piece_;
    std::byte* slot = steps_.slot_to_write(steps_.rank());
    const Range mine = slice(p, steps_.rank());
    const size_t after = mine.from + mine.size;
    std::memcpy(slot, from, mine.from);
    std::memcpy(slot + after, from + after, length(p) - after);
  }

  void reduce(size_t p) const {
    const Range mine = slice(p, steps_.rank());
    std::vector<const std::byte*> values;
    std::vector<std::byte*> sums;
    for (int r = 0; r < world_; ++r) {
      std::byte* value =
          (r == steps_.rank() ? data_ + p * piece_ : steps_.slot_in_use(r)) + mine.from;
      values.push_back(value);
      if (takes(r)) sums.push_back(value);
    }
    reduce_values(op_, dtype_, values, sums, mine.size / c10::elementSize(dtype_));
  }

  /// After the turn at which all have reduced: the slot of the turn before is this rank's again.
  void copy_sums(size_t p) const {
    const std::byte* slot = steps_.slot_to_write(steps_.rank());
    for (int r = 0; r < world_; ++r) {
      if (r == steps_.rank()) continue;
      const Range theirs = slice(p, r);
      std::memcpy(data_ + p * piece_ + theirs.from, slot + theirs.from, theirs.size);
    }
  }

  ShmSteps& steps_;
  std::byte* data_;
  const size_t size_;
  const ReduceOp::RedOpType op_;
  const at::ScalarType dtype_;
  const int root_, world_;
  const size_t piece_;
};

}  // namespace

void reduce_in_slices(ShmSteps& steps,
                      std::byte* data,
                      size_t size,
                      ReduceOp::RedOpType op,
                      at::ScalarType dtype,
                      int root) {
  SlicedReduction(steps, data, size, op, dtype, root).run();
}

}  // namespace muster::distributed
