#include "muster/tune/search/gp/sobol.h"

#include <bit>
#include <cmath>

#include "muster/base/philox.h"

namespace muster::tune {
namespace {

constexpr int kSobolBits = SobolSequence::kBits;
constexpr uint32_t kSobolMask = (uint32_t{1} << kSobolBits) - 1;
constexpr uint32_t kSobolStream = 0x50B01;

using SobolDigits = std::array<uint32_t, kSobolBits>;

/// Direction number c has its first digit at the highest bit. First dimension: van der Corput's.
SobolDigits sobol_directions(size_t dimension) {
  SobolDigits m{};
  if (dimension == 0) {
    m.fill(1);
  } else {
    const SobolNumbers numbers = sobol_numbers(dimension);
    const size_t degree = numbers.first.size();
    for (size_t c = 0; c < m.size(); ++c) {
      if (c < degree) {
        m[c] = numbers.first[c];
        continue;
      }
      m[c] = m[c - degree];
      for (size_t k = 1; k <= degree; ++k) {
        if (numbers.polynomial >> (degree - k) & 1) m[c] ^= m[c - k] << k;
      }
    }
  }
  for (size_t c = 0; c < m.size(); ++c) m[c] <<= m.size() - 1 - c;
  return m;
}

std::array<uint32_t, 4> sobol_bits(uint64_t seed, uint32_t stream, size_t dimension, uint32_t row) {
  return philox4x32_10({row, static_cast<uint32_t>(dimension), stream, kSobolStream},
                       {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

/// Digit b of the result is a random sum of digits 0 to b (from the highest), b itself always.
void scramble_sobol(SobolDigits& directions, uint64_t seed, uint32_t stream, size_t dimension) {
  SobolDigits scrambled{};
  for (int b = 0; b < kSobolBits; ++b) {
    const int place = kSobolBits - 1 - b;
    const uint32_t above = kSobolMask & ~((uint32_t{2} << place) - 1);
    const uint32_t row =
        (sobol_bits(seed, stream, dimension, static_cast<uint32_t>(b))[0] & above) | uint32_t{1}
                                                                                         << place;
    for (size_t c = 0; c < directions.size(); ++c)
      scrambled[c] |= static_cast<uint32_t>(std::popcount(directions[c] & row) & 1) << place;
  }
  directions = scrambled;
}

double sobol_number(uint32_t digits, bool scrambled) {
  return std::ldexp(static_cast<double>(digits) + (scrambled ? 0.5 : 0.0), -kSobolBits);
}

}  // namespace

SobolSequence::SobolSequence(size_t dimensions, std::optional<uint64_t> seed, uint32_t stream)
    : dimensions_(dimensions), scrambled_(seed.has_value()), shifts_(dimensions, 0) {
  directions_.reserve(dimensions * kSobolBits);
  for (size_t d = 0; d < dimensions; ++d) {
    SobolDigits directions = sobol_directions(d);
    if (seed) {
      scramble_sobol(directions, *seed, stream, d);
      shifts_[d] = sobol_bits(*seed, stream, d, kSobolBits)[0] & kSobolMask;
    }
    directions_.insert(directions_.end(), directions.begin(), directions.end());
  }
}

double SobolSequence::at(uint64_t index, size_t dimension) const {
  uint32_t digits = shifts_[dimension];
  for (uint64_t gray = (index ^ index >> 1) & kSobolMask; gray != 0; gray &= gray - 1)
    digits ^= directions_[dimension * kSobolBits + static_cast<size_t>(std::countr_zero(gray))];
  return sobol_number(digits, scrambled_);
}

std::vector<double> SobolSequence::columns(size_t count) const {
  std::vector<double> out(dimensions_ * count);
  for (size_t d = 0; d < dimensions_; ++d) {
    uint32_t digits = shifts_[d];
    for (size_t i = 0; i < count; ++i) {
      out[d * count + i] = sobol_number(digits, scrambled_);
      digits ^= directions_[d * kSobolBits + static_cast<size_t>(std::countr_one(i)) % kSobolBits];
    }
  }
  return out;
}

}  // namespace muster::tune
