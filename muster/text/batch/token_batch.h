// Sequences of ids as one rectangle: padded, cut, with the length of each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster::text {

enum class Side : uint8_t { kRight, kLeft };

struct BatchOptions {
  int64_t pad_value = 0;              ///< any int64: usually the id of "<pad>"
  Side pad_side = Side::kRight;       ///< where padding stands
  int64_t max_length = 0;             ///< longer rows are cut to it; 0: none is
  Side truncate_side = Side::kRight;  ///< the end that is cut off
  bool pad_to_max_length = false;  ///< all batches max_length wide, else as wide as the longest row
  int64_t multiple_of = 1;         ///< the width is rounded up to a multiple (8 suits tensor cores)
};

/// A batch in plain memory, row-major.
struct TokenBatch {
  int64_t rows = 0;
  int64_t width = 0;
  std::vector<int64_t> ids;      ///< [rows, width] int64
  std::vector<int64_t> lengths;  ///< [rows] int64: of each row without padding, after it was cut
  Side pad_side = Side::kRight;

  /// The ids of a row, without its padding. Throws a usage error if there is no such row.
  std::span<const int64_t> row(int64_t index) const;

  /// [rows, width], 1 where an id stands and 0 where padding does.
  std::vector<uint8_t> mask() const;
};

/// Throws a usage error for options that contradict each other, and where rows * width does not
/// fit into memory that can be addressed.
TokenBatch pad_batch(std::span<const std::vector<int64_t>> sequences, const BatchOptions& options);

}  // namespace muster::text
