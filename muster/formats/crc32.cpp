#include "muster/formats/crc32.h"

#include <cstdio>

#include <libdeflate.h>

namespace muster::formats {

uint32_t crc32_of(std::string_view bytes, uint32_t before) {
  if (bytes.empty()) return before;  // no pointer would mean: start anew
  return ::libdeflate_crc32(before, bytes.data(), bytes.size());
}

std::string crc32_text(uint32_t sum) {
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", sum);
  return digits;
}

}  // namespace muster::formats
