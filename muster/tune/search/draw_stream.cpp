#include "muster/tune/search/draw_stream.h"

#include <algorithm>

#include "muster/base/philox.h"
#include "muster/tune/search/normal.h"

namespace muster::tune {

double DrawStream::uniform() {
  if (!has_half_) {
    bits_ = philox4x32_10(counter_, key_);
    ++counter_[3];
  }
  const size_t half = has_half_ ? 2 : 0;
  has_half_ = !has_half_;
  const uint64_t word = (uint64_t{bits_[half]} << 32 | bits_[half + 1]) >> 12;
  return (static_cast<double>(word) + 0.5) * 0x1p-52;
}

double DrawStream::normal() { return inverse_normal_cdf(uniform()); }

size_t DrawStream::index(size_t count) {
  const auto place = static_cast<size_t>(uniform() * static_cast<double>(count));
  return std::min(place, count - 1);
}

}  // namespace muster::tune
