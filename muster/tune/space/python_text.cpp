#include "muster/tune/space/python_text.h"

#include <charconv>
#include <cmath>
#include <cstdint>

#include <time.h>

#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::tune {

std::string to_datetime(double time_s) {
  const int64_t us = std::llround(time_s * 1e6);
  const time_t seconds = us / 1000000;
  tm utc{};
  ::gmtime_r(&seconds, &utc);
  char buffer[40];
  const size_t size = ::strftime(buffer, sizeof buffer, "%Y-%m-%d %H:%M:%S.", &utc);
  const std::string digits = std::to_string(1000000 + us % 1000000);  // 1uuuuuu
  return std::string(buffer, size) + digits.substr(1);
}

double from_datetime(std::string_view text) {
  const std::string copy(text);  // strptime wants an end
  tm utc{};
  const char* rest = ::strptime(copy.c_str(), "%Y-%m-%d %H:%M:%S", &utc);
  if (rest == nullptr) return 0;
  const double fraction = *rest == '.' ? to_double(concat('0', rest)).value_or(0) : 0;
  return static_cast<double>(::timegm(&utc)) + fraction;
}

std::string python_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  const double size = std::fabs(value);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  char buffer[40];
  const auto format = fixed ? std::chars_format::fixed : std::chars_format::scientific;
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value, format).ptr);
  if (fixed && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string python_json(const Value& value) {
  if (value.is_double()) return python_number(value.as_double());
  return to_json(value).dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace muster::tune
