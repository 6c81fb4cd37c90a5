#include "muster/tune/files/units.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "muster/base/text.h"

namespace muster::tune {
namespace {

/// Takes a number and the letters behind it off the front of `text`. The letters may be empty.
std::optional<std::pair<double, std::string_view>> take_amount(std::string_view& text) {
  text = trim(text);
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto amount = to_double(text.substr(0, digits));
  if (!amount || !std::isfinite(*amount)) return std::nullopt;
  text = trim(text.substr(digits));
  const size_t letters = std::min(text.find_first_of("0123456789. \t"), text.size());
  const std::string_view unit = text.substr(0, letters);
  text = trim(text.substr(letters));
  return std::pair(*amount, unit);
}

}  // namespace

std::optional<double> duration_s(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 5> kUnits = {
      {{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}, {"ms", 1e-3}}};
  double seconds = 0;
  size_t next = 0;  // the longest unit that may come now
  do {
    const auto amount = take_amount(text);
    if (!amount) return std::nullopt;
    while (next < kUnits.size() && kUnits[next].first != amount->second) ++next;
    if (next == kUnits.size()) return std::nullopt;
    seconds += amount->first * kUnits[next++].second;
  } while (!text.empty());
  return std::isfinite(seconds) ? std::optional(seconds) : std::nullopt;
}

std::optional<uint64_t> bytes_of(std::string_view text) {
  const auto amount = take_amount(text);
  if (!amount || !text.empty() || amount->second.empty()) return std::nullopt;
  std::string_view unit = amount->second;
  constexpr std::string_view kPrefixes = "KMGT";
  const char first = unit[0] == 'k' ? 'K' : unit[0];
  const size_t prefix = kPrefixes.find(first);
  const double power = prefix == std::string_view::npos ? 0 : static_cast<double>(prefix + 1);
  if (power > 0) unit.remove_prefix(1);
  const bool decimal = unit == "B";
  if (!decimal && (power == 0 || (unit != "" && unit != "iB"))) return std::nullopt;
  const double bytes = std::round(amount->first * std::pow(decimal ? 1000.0 : 1024.0, power));
  return bytes < 0x1p63 ? std::optional(static_cast<uint64_t>(bytes)) : std::nullopt;
}

}  // namespace muster::tune
