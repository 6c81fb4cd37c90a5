// Numbers of samples, one on each line: which ones a split holds out.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace muster::formats {

/// Reads lines of whole numbers from 0 on; blank lines, blanks around numbers, and what is behind a #
/// are left out. In the order of the file. Throws a usage error that names `where` and the line for
/// anything else.
std::vector<int64_t> parse_index_list(std::string_view text, std::string_view where);

}  // namespace muster::formats
