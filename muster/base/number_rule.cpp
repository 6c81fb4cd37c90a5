#include "muster/base/number_rule.h"

#include <charconv>

#include "muster/base/text.h"

namespace muster {
namespace {

bool is_out_of_range(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc::result_out_of_range && stopped == end;
}

}  // namespace

std::string_view number_rule(std::string_view text) {
  if (to_double(text)) return "a finite number is needed";
  if (is_out_of_range(text))
    return "a number of at most 1.8e308, and not so small that a double takes it for 0, is needed";
  return "a number is needed";
}

std::string_view overflow_rule(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  const bool whole =
      !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
  if (whole) return to_int(text) ? "" : "a whole number has 64 bits";
  return is_out_of_range(text) ? "a number fits into a double" : "";
}

}  // namespace muster
