#include "muster/base/number_rule.h"

#include <charconv>

#include "muster/base/text.h"

namespace muster {

std::string_view number_rule(std::string_view text) {
  if (to_double(text)) return "a finite number is needed";
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range && stopped == end)
    return "a number of at most 1.8e308, and not so small that a double takes it for 0, is needed";
  return "a number is needed";
}

}  // namespace muster
