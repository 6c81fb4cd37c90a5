// A JPEG file is refused by one environment error, or it has the pixels that its header says, and any
// part of it decodes to the same bytes.
#include "tests/fuzz/image_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> file(data, size);
  muster::fuzz::check_image(file, /*keep_damaged=*/false);
  muster::fuzz::check_image(file, /*keep_damaged=*/true);
  return 0;
}
