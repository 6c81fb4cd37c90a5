#include "muster/data/rng.h"

#include <cmath>
#include <numbers>

#include "muster/base/error.h"
#include "muster/base/philox.h"
#include "muster/base/text.h"

namespace muster::data {

Rng::Rng(uint64_t seed, int64_t epoch, int64_t index, int64_t position)
    : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
      counter_{0,
               static_cast<uint32_t>(index),
               static_cast<uint32_t>(epoch),
               static_cast<uint32_t>((static_cast<uint64_t>(index) >> 32 & 0xffff) << 16 |
                                     (static_cast<uint64_t>(position) & 0xffff))} {}

uint32_t Rng::bits32() {
  if (used_ == 4) {
    block_ = philox4x32_10(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

uint64_t Rng::bits64() {
  const uint64_t high = bits32();
  return high << 32 | bits32();
}

double Rng::uniform() { return static_cast<double>(bits64() >> 11) * 0x1p-53; }

int64_t Rng::below(int64_t count) {
  if (count < 1) {
    throw usage_error({.refused = "a random number below a bound",
                       .rule = "the bound is at least 1",
                       .value = concat(count)});
  }
  // The numbers below 2^64 mod count come once too often.
  const auto range = static_cast<uint64_t>(count);
  const uint64_t surplus = (0 - range) % range;
  uint64_t drawn = bits64();
  while (drawn < surplus) drawn = bits64();
  return static_cast<int64_t>(drawn % range);
}

double Rng::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

}  // namespace muster::data
