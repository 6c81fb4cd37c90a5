// Points of a space along Sobol's sequence.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "muster/tune/search/gp/sobol.h"
#include "muster/tune/space/space.h"

namespace muster::tune {

/// One coordinate for each dimension that no grid fills; a coordinate is the share of a
/// distribution that is below. Steps and categories have equal parts.
class SobolPoints {
 public:
  /// Of a space with at most SobolSequence::kMaxDimensions such dimensions; see count(). With a
  /// seed, scrambled.
  SobolPoints(const Space& space, std::optional<uint64_t> seed);

  /// How many such dimensions a space has.
  static size_t count(const Space& space);

  /// `point` with numbers where it has none; the dimensions of a grid stay as they are.
  Point fill(uint64_t index, Point point) const;

 private:
  const Space& space_;
  std::vector<size_t> dimensions_;
  SobolSequence sequence_;
};

}  // namespace muster::tune
