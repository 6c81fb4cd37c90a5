#include "muster/formats/class_balance.h"

#include <algorithm>

namespace muster::formats {

double class_imbalance(std::span<const int64_t> samples) {
  if (samples.empty()) return 0;
  const auto [least, most] = std::ranges::minmax(samples);
  return least < 1 ? 0 : static_cast<double>(most) / static_cast<double>(least);
}

}  // namespace muster::formats
