#include "muster/base/metric_text.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "muster/base/text.h"

namespace muster {

std::string metric_text(double value, int digits) {
  constexpr double kLong = 1e9;
  // Two significant digits are seen of all that is not below.
  const double least = std::pow(10, 1 - digits);
  const double size = std::abs(value);
  if (!std::isfinite(value) || value == 0 || (size >= least && size < kLong))
    return fixed(value, digits);
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.3g", value);
  return buffer.data();
}

}  // namespace muster
