// Texts in CSV files, as RFC 4180 has them.
#pragma once

#include <string>
#include <string_view>

namespace muster {

/// In quotes where it has a comma, a quote or the end of a line.
std::string csv_field(std::string_view text);

}  // namespace muster
