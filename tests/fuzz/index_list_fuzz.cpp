// Lists of samples, as --validation-split file:FILE reads them and as checkpoints keep them: any
// text is refused by one usage error, or its numbers, written again, read back as the same.
#include <string>

#include "muster/base/error.h"
#include "muster/formats/index_list.h"

#include "tests/fuzz/fuzz.h"

namespace {

using namespace muster;

constexpr int64_t kMost = 1000;

std::vector<int64_t> numbers_of(std::string_view text, bool is_ranges) {
  try {
    return is_ranges ? formats::parse_index_ranges(text, "fuzz", kMost)
                     : formats::parse_index_list(text, "fuzz");
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kUsage, "a bad text is a usage error");
    return {};
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool is_ranges : {false, true}) {
    const std::vector<int64_t> numbers = numbers_of(text, is_ranges);
    fuzz::require(!is_ranges || numbers.size() <= kMost, "no more numbers than may be");
    std::string lines;
    for (const int64_t number : numbers) {
      fuzz::require(number >= 0, "numbers count from 0");
      lines += std::to_string(number) + '\n';
    }
    fuzz::require(formats::parse_index_list(lines, "again") == numbers, "lines read back");
    const std::string ranges = formats::to_index_ranges(numbers);
    fuzz::require(formats::parse_index_ranges(ranges, "again", numbers.size()) == numbers,
                  "ranges read back");
  }
  return 0;
}
