// Text as a shell takes it for one word.
#pragma once

#include <string>

namespace muster::program {

/// Between single quotes, whatever it holds.
std::string shell_quoted(const std::string& text);

/// As it would be typed: quoted only where that is needed.
std::string shell_word(const std::string& word);

}  // namespace muster::program
