#include "muster/base/duration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "muster/base/text.h"

namespace muster {

std::optional<AmountText> take_amount(std::string_view& text) {
  text = trim(text);
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto number = to_double(text.substr(0, digits));
  if (!number || !std::isfinite(*number)) return std::nullopt;
  text = trim(text.substr(digits));
  const size_t letters = std::min(text.find_first_of("0123456789. \t"), text.size());
  const std::string_view unit = text.substr(0, letters);
  text = trim(text.substr(letters));
  return AmountText{.number = *number, .unit = unit};
}

std::optional<double> duration_s(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 5> kUnits = {
      {{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}, {"ms", 1e-3}}};
  double seconds = 0;
  size_t next = 0;  // the longest unit that may come now
  do {
    const auto amount = take_amount(text);
    if (!amount) return std::nullopt;
    while (next < kUnits.size() && kUnits[next].first != amount->unit) ++next;
    if (next == kUnits.size()) return std::nullopt;
    seconds += amount->number * kUnits[next++].second;
  } while (!text.empty());
  return std::isfinite(seconds) ? std::optional(seconds) : std::nullopt;
}

std::optional<double> seconds_of(std::string_view text) {
  if (const auto number = to_double(text); number && std::isfinite(*number)) return number;
  return duration_s(text);
}

std::chrono::nanoseconds bounded_wait(double seconds) {
  constexpr double kLongest = 1e9;
  const double bounded = seconds < kLongest ? std::max(seconds, 0.0) : kLongest;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(bounded));
}

}  // namespace muster
