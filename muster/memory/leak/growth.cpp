#include "muster/memory/leak/growth.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace muster::memory {

double median_slope(std::span<const int64_t> values) {
  std::vector<double> slopes;
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = i + 1; j < values.size(); ++j)
      slopes.push_back(static_cast<double>(values[j] - values[i]) / static_cast<double>(j - i));
  }
  if (slopes.empty()) return 0;
  const auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
  std::nth_element(slopes.begin(), middle, slopes.end());
  if (slopes.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(slopes.begin(), middle)) / 2;
}

bool mostly_rises(std::span<const int64_t> values, double share) {
  if (values.size() < 2) return false;
  size_t up = 0;
  for (size_t i = 1; i < values.size(); ++i) up += values[i] > values[i - 1] ? 1 : 0;
  return static_cast<double>(up) >= share * static_cast<double>(values.size() - 1);
}

bool keeps_its_growth(std::span<const int64_t> values) {
  if (values.size() < 2) return false;
  const auto whole = static_cast<double>(values.back() - values.front());
  return 2 * whole >= median_slope(values) * static_cast<double>(values.size() - 1);
}

bool rises_in_fifths(std::span<const int64_t> values) {
  constexpr size_t kParts = 5;
  const size_t length = values.size() / kParts;
  if (length < 2) return false;
  std::span<const int64_t> rest = values.last(length * kParts);
  std::optional<int64_t> before;
  for (; !rest.empty(); rest = rest.subspan(length)) {
    std::vector<int64_t> part(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(length));
    const auto middle = part.begin() + static_cast<std::ptrdiff_t>(length / 2);
    std::nth_element(part.begin(), middle, part.end());
    if (before && *middle <= *before) return false;
    before = *middle;
  }
  return true;
}

bool survivors_throughout(uint64_t born, int youngest, int ages, double share) {
  int with = 0;
  for (int age = youngest; age < youngest + ages; ++age) {
    if (age < 64 && (born >> age & 1) != 0) ++with;
  }
  return ages > 0 && with >= share * ages;
}

}  // namespace muster::memory
