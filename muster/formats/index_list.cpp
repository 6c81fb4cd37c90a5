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

std::string to_index_ranges(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t i = 0, last = 0; i < numbers.size(); i = last + 1) {
    last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] - 1 == numbers[last]) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[i]);
    if (last > i) text += concat('-', numbers[last]);
  }
  return text;
}

std::vector<int64_t> parse_index_ranges(std::string_view text,
                                        std::string_view where,
                                        int64_t most) {
  std::vector<int64_t> numbers;
  int64_t left = most;
  if (text.empty()) return numbers;
  for (const std::string& part : split(text, ',')) {
    const size_t dash = part.find('-');
    const auto first = to_int(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : to_int(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last - *first >= left) {
      throw usage_error({.refused = std::string(where),
                         .rule = concat("at most ", most, " numbers of samples, as in 0-4,9"),
                         .value = concat('"', part.substr(0, 80), '"')});
    }
    const int64_t count = *last - *first + 1;
    for (int64_t i = 0; i < count; ++i) numbers.push_back(*first + i);
    left -= count;
  }
  return numbers;
}

}  // namespace muster::formats
