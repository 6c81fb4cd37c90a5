#include "muster/memory/estimate/pool_model.h"

#include <algorithm>

#include "muster/tensor/device/device_memory.h"

namespace muster::memory {
namespace {

constexpr int64_t kPoolMib = int64_t{1} << 20;
constexpr int64_t kSmallest = tensor::kBlockBytes;
constexpr int64_t kMostSmall = kPoolMib;
constexpr int64_t kSmallSegment = 2 * kPoolMib, kLargeSegment = 20 * kPoolMib;
constexpr int64_t kOwnSegment = 10 * kPoolMib, kOwnSegmentStep = 2 * kPoolMib;

int64_t up_to(int64_t bytes, int64_t step) { return (bytes + step - 1) / step * step; }

int64_t segment_for(int64_t bytes) {
  if (bytes <= kMostSmall) return kSmallSegment;
  return bytes < kOwnSegment ? kLargeSegment : up_to(bytes, kOwnSegmentStep);
}

}  // namespace

int64_t PoolModel::rounded(int64_t bytes) { return up_to(std::max<int64_t>(bytes, 1), kSmallest); }

size_t PoolModel::add_segment(int64_t bytes, bool is_small) {
  reserved_ += bytes;
  pieces_.push_back({.bytes = bytes, .is_small = is_small});
  return pieces_.size() - 1;
}

/// What is behind the first `bytes` of the piece becomes a free one.
void PoolModel::split(size_t index, int64_t bytes) {
  const Piece whole = pieces_[index];
  const size_t rest = pieces_.size();
  pieces_.push_back({.bytes = whole.bytes - bytes,
                     .is_free = true,
                     .is_small = whole.is_small,
                     .before = index,
                     .after = whole.after});
  if (whole.after != kNone) pieces_[whole.after].before = rest;
  pieces_[index].bytes = bytes;
  pieces_[index].after = rest;
  free_of(whole).insert({pieces_[rest].bytes, rest});
}

size_t PoolModel::allocate(int64_t asked) {
  const int64_t bytes = rounded(asked);
  const bool is_small = bytes <= kMostSmall;
  FreeList& free = is_small ? small_ : large_;
  size_t index = 0;
  if (const auto found = free.lower_bound({bytes, 0}); found != free.end()) {
    index = found->second;
    free.erase(found);
    pieces_[index].is_free = false;
  } else {
    index = add_segment(segment_for(bytes), is_small);
  }
  const int64_t left = pieces_[index].bytes - bytes;
  if (is_small ? left >= kSmallest : left > kMostSmall) split(index, bytes);
  allocated_ += pieces_[index].bytes;
  return index;
}

/// The piece takes in its free neighbour behind it.
void PoolModel::join(size_t index, size_t next) {
  Piece& piece = pieces_[index];
  free_of(piece).erase({pieces_[next].bytes, next});
  piece.bytes += pieces_[next].bytes;
  piece.after = pieces_[next].after;
  if (piece.after != kNone) pieces_[piece.after].before = index;
}

void PoolModel::release(size_t index) {
  allocated_ -= pieces_[index].bytes;
  if (const size_t next = pieces_[index].after; next != kNone && pieces_[next].is_free)
    join(index, next);
  if (const size_t before = pieces_[index].before; before != kNone && pieces_[before].is_free) {
    // The one in front stays, under its own number.
    free_of(pieces_[before]).erase({pieces_[before].bytes, before});
    join(before, index);
    index = before;
  }
  pieces_[index].is_free = true;
  free_of(pieces_[index]).insert({pieces_[index].bytes, index});
}

}  // namespace muster::memory
