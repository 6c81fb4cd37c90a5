// A list of samples, as --validation-split file:FILE reads it: any text is refused by one usage
// error, or its numbers, written one on each line, read back as the same.
#include <string>

#include "muster/base/error.h"
#include "muster/formats/index_list.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  std::vector<int64_t> numbers;
  try {
    numbers = formats::parse_index_list({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kUsage, "a bad text is a usage error");
    return 0;
  }
  std::string text;
  for (const int64_t number : numbers) {
    fuzz::require(number >= 0, "numbers count from 0");
    text += std::to_string(number) + '\n';
  }
  fuzz::require(formats::parse_index_list(text, "again") == numbers, "what was written reads back");
  return 0;
}
