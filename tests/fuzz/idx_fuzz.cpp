// An IDX file, packed or not, is refused by one environment error, or its array has the size that
// its dimensions say, and written plainly it reads back as the same.
#include <algorithm>
#include <vector>

#include "muster/base/error.h"
#include "muster/formats/idx.h"

#include "tests/fuzz/fuzz.h"

namespace muster::fuzz {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;

std::vector<uint8_t> plain_file(const formats::IdxArray& array) {
  std::vector<uint8_t> out{
      0, 0, static_cast<uint8_t>(array.type), static_cast<uint8_t>(array.dims.size())};
  for (const int64_t dim : array.dims) {
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<uint8_t>(dim >> shift));
  }
  out.insert(out.end(), array.bytes.begin(), array.bytes.end());
  return out;
}

void check(const formats::IdxArray& array) {
  int64_t bytes = formats::element_bytes(array.type);
  for (const int64_t dim : array.dims) bytes *= dim;
  require(static_cast<int64_t>(array.bytes.size()) == bytes, "the size is the dimensions' product");
  require(bytes <= kMaxBytes, "the limit holds");
  const std::vector<uint8_t> file = plain_file(array);
  const formats::IdxArray again = formats::parse_idx(file, "again", {.max_bytes = kMaxBytes});
  require(again.type == array.type && again.dims == array.dims &&
              std::ranges::equal(again.bytes, array.bytes),
          "what was written reads back");
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  formats::IdxArray array;
  try {
    array = formats::parse_idx({data, size}, "fuzz", {.max_bytes = fuzz::kMaxBytes});
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kEnvironment, "a bad file is an environment error");
    return 0;
  }
  fuzz::check(array);
  return 0;
}
