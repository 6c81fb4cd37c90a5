// A PNG file is refused by one environment error, or it has the pixels that its header says, and any
// part of it decodes to the same bytes. Once as it is, and once with checksums that hold.
#include <vector>

#include "muster/formats/crc32.h"

#include "tests/fuzz/image_checks.h"

namespace muster::fuzz {
namespace {

std::vector<uint8_t> with_checksums(std::span<const uint8_t> file) {
  std::vector<uint8_t> out(file.begin(), file.end());
  constexpr size_t kSignature = 8, kAround = 12;  // length, name and checksum of a chunk
  for (size_t at = kSignature; at + kAround <= out.size();) {
    const size_t length =
        size_t{out[at]} << 24 | size_t{out[at + 1]} << 16 | size_t{out[at + 2]} << 8 | out[at + 3];
    if (length > out.size() - at - kAround) break;
    const uint32_t sum = formats::crc32_of(text_of(&out[at + 4], length + 4));
    for (size_t i = 0; i < 4; ++i)
      out[at + 8 + length + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
    at += kAround + length;
  }
  return out;
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> file(data, size);
  muster::fuzz::check_image(file, /*keep_damaged=*/false);
  muster::fuzz::check_image(muster::fuzz::with_checksums(file), /*keep_damaged=*/false);
  return 0;
}
