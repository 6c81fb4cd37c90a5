// Parameters that are lists of names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// "a" or "[a,b]", without the blanks around each name. In brackets a name may stand in quotes, as in CSV: ["a,b",c]
/// are two, and "" in quotes is one quote. An empty name in brackets is one only in quotes: [] are none, [""] is one.
std::vector<std::string> names_in(std::string_view text);

/// Behind the quote that closes the one at `at`, where "" is a letter; npos where none does.
size_t behind_quotes(std::string_view text, size_t at);

/// Of a parameter that is one name: as it stands, or in brackets and quotes, ["a,b"].
std::string name_in(std::string_view text);

/// The name as it is said to be read by names_in(): in brackets and quotes where it must be.
std::string name_text(std::string_view name);

}  // namespace muster
