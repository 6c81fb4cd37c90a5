// Numbers of samples, one on each line: which ones a split holds out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::formats {

/// Reads lines of whole numbers from 0 on; blank lines, blanks around numbers, and what is behind a #
/// are left out. In the order of the file. Throws a usage error that names `where` and the line for
/// anything else.
std::vector<int64_t> parse_index_list(std::string_view text, std::string_view where);

/// "0-4,9": whole numbers from 0 on in one line, neighbours that follow each other as a range.
std::string to_index_ranges(const std::vector<int64_t>& numbers);

/// What to_index_ranges() writes. Throws a usage error that names `where` for anything else, and for
/// more than `most` numbers.
std::vector<int64_t> parse_index_ranges(std::string_view text,
                                        std::string_view where,
                                        int64_t most);

}  // namespace muster::formats
