#include "muster/formats/index_list.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::formats {

std::vector<int64_t> parse_index_list(std::string_view text, std::string_view where) {
  std::vector<int64_t> numbers;
  for (size_t at = 0, line = 1; at < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view whole = text.substr(at, end - at);
    const std::string_view word = trim(whole.substr(0, whole.find('#')));
    at = end + 1;
    if (word.empty()) continue;
    const auto number = to_int(word);
    if (!number || *number < 0) {
      throw usage_error({.refused = concat(where, ", line ", line),
                         .rule = "the number of a sample, from 0 on",
                         .value = concat('"', word.substr(0, 80), '"')});
    }
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace muster::formats
