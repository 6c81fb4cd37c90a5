// Who owns which elements of a model's parameters. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::parallel {

// Note [Shards]
// Parameters lie one behind the other in buckets. A bucket is cut into `world_size` chunks of equal
// length, and rank r owns chunk r of every bucket: a reduce-scatter of a bucket's gradients gives
// each rank the sums of its chunk, an all-gather of the chunks gives every rank the whole bucket,
// and no rank has more than the others by design. What one rank owns of one parameter is one piece:
// elements begin to end of the parameter in the order of its memory.
//
// Each parameter starts at a multiple of kShardAlign elements and chunks are multiples of it, so a
// piece begins at such a multiple, and ends at one or with the parameter. ATen's CPU kernels treat
// elements in vectors of up to 64 and the rest of a tensor one by one, which may round otherwise;
// with these borders an element of a piece is treated as in the whole tensor, and an optimizer that
// looks at each element alone gives bit for bit what it gives unsharded.

inline constexpr int64_t kShardAlign = 64;  ///< elements

/// What a rank owns of a parameter.
struct ShardPiece {
  size_t parameter = 0;        ///< index into the parameters
  int64_t begin = 0, end = 0;  ///< elements of the parameter, in the order of its memory
  int64_t offset = 0;          ///< of `begin` in the rank's chunk

  bool operator==(const ShardPiece&) const = default;
};

struct ShardBucket {
  std::vector<size_t> parameters;  ///< indices, in the order in which they lie
  std::vector<int64_t> offsets;    ///< of each in the bucket, elements
  int64_t chunk = 0;               ///< elements per rank; the bucket has world_size times as many

  /// What `rank` owns, in the order of the chunk; nothing where its chunk holds padding alone.
  std::vector<ShardPiece> pieces(int rank, const std::vector<int64_t>& numels) const;

  bool operator==(const ShardBucket&) const = default;
};

/// A parameter as the layout sees it.
struct ShardInput {
  int64_t numel = 0;
  int64_t element_bytes = 4;
  int kind = 0;  ///< a bucket holds one kind: one dtype on one device
};

/// Buckets of at most `bucket_bytes` each, or of one parameter that is larger, filled from the last
/// parameter to the first, about the order in which backward reaches them.
std::vector<ShardBucket> lay_out_shards(const std::vector<ShardInput>& parameters,
                                        int world_size,
                                        int64_t bucket_bytes);

}  // namespace muster::parallel
