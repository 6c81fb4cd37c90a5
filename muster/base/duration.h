// Spans of time as people write them.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace muster {

/// "90s", "10m", "1h30m", "1.5 d", "2 h 5 m" in seconds; nothing for anything else. Units are d, h,
/// m, s and ms, each once and the longer ones first; a number without a unit is not taken.
std::optional<double> duration_s(std::string_view text);

/// The same, and a finite number without a unit, which is one of seconds: for a flag, whose value
/// may as well come from a script.
std::optional<double> seconds_of(std::string_view text);

/// `seconds` for a wait, from 0 to 1e9: nobody waits longer than some 30 years, and a clock counts
/// nanoseconds, so that its time with more added to it would lie in the past.
std::chrono::nanoseconds bounded_wait(double seconds);

/// A number with the unit behind it, off the front of `text`: digits, a point, and letters, which may
/// be missing. Nothing if there is no number.
struct AmountText {
  double number = 0;
  std::string_view unit;
};
std::optional<AmountText> take_amount(std::string_view& text);

}  // namespace muster
