// What is said of a text that is not the number that is needed.
#pragma once

#include <string_view>

namespace muster {

/// "a number is needed", or of NaN and infinity "a finite number is needed", or of 1e400 and 1e-400
/// that a double cannot hold it.
std::string_view number_rule(std::string_view text);

}  // namespace muster
