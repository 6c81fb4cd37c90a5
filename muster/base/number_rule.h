// What is said of a text that is not the number that is needed.
#pragma once

#include <string_view>

namespace muster {

/// "a number is needed", or of NaN and infinity "a finite number is needed", or of 1e400 and 1e-400
/// that a double cannot hold it.
std::string_view number_rule(std::string_view text);

/// What is said of a text that is written as a number which neither int64_t nor double holds, and which
/// would silently become another or a text: "a whole number has 64 bits" of 9223372036854775808, "a
/// number fits into a double" of 1e400. Empty for all else.
std::string_view overflow_rule(std::string_view text);

}  // namespace muster
