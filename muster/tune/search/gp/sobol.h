// Sobol's sequence: points that cover the unit cube more evenly than random draws.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace muster::tune {

/// Source: Sobol 1967; Antonov, Saleev 1979 (Gray code order); direction numbers of Joe, Kuo 2008,
/// "Constructing Sobol sequences with better two-dimensional projections". Unscrambled, point i is
/// that of scipy.stats.qmc.Sobol(bits=30), bit for bit.
class SobolSequence {
 public:
  static constexpr size_t kMaxDimensions = 481;  ///< all polynomials up to degree 12
  static constexpr int kBits = 30;

  /// With a seed it is scrambled as scipy's: a random linear map of the digits and a digital shift
  /// (Matousek 1998), drawn from Philox by seed, `stream` and dimension; then no number is 0 or 1.
  /// At most kMaxDimensions dimensions.
  explicit SobolSequence(size_t dimensions, std::optional<uint64_t> seed = {}, uint32_t stream = 0);

  size_t dimensions() const { return dimensions_; }

  /// Coordinate `dimension` of point `index`; indices beyond 2^30 begin anew.
  double at(uint64_t index, size_t dimension) const;

  /// Points 0 to `count` - 1: out[dimension * count + index].
  std::vector<double> columns(size_t count) const;

 private:
  size_t dimensions_;
  bool scrambled_;
  std::vector<uint32_t> directions_;  // kBits for each dimension
  std::vector<uint32_t> shifts_;      // one for each
};

/// Numbers of which Sobol sequences are made: for a dimension from the second on, the polynomial
/// and the first direction numbers, as many as its degree.
struct SobolNumbers {
  uint32_t polynomial;  ///< its coefficients as bits, the first and the last one included
  std::span<const uint16_t> first;
};
SobolNumbers sobol_numbers(size_t dimension);

}  // namespace muster::tune
