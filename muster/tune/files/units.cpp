#include "muster/tune/files/units.h"

#include <cmath>

#include "muster/base/duration.h"

namespace muster::tune {

std::optional<uint64_t> bytes_of(std::string_view text) {
  const auto amount = take_amount(text);
  if (!amount || !text.empty() || amount->unit.empty()) return std::nullopt;
  std::string_view unit = amount->unit;
  constexpr std::string_view kPrefixes = "KMGT";
  const char first = unit[0] == 'k' ? 'K' : unit[0];
  const size_t prefix = kPrefixes.find(first);
  const double power = prefix == std::string_view::npos ? 0 : static_cast<double>(prefix + 1);
  if (power > 0) unit.remove_prefix(1);
  const bool decimal = unit == "B";
  if (!decimal && (power == 0 || (unit != "" && unit != "iB"))) return std::nullopt;
  const double bytes = std::round(amount->number * std::pow(decimal ? 1000.0 : 1024.0, power));
  return bytes < 0x1p63 ? std::optional(static_cast<uint64_t>(bytes)) : std::nullopt;
}

}  // namespace muster::tune
