#include "muster/formats/crc32.h"

#include <string>

#include <gtest/gtest.h>
#include <zlib.h>

namespace muster::formats {
namespace {

TEST(Crc32, IsZlibsAlsoInParts) {
  EXPECT_EQ(crc32_of("123456789"), 0xcbf43926U);  // the check value of the catalogues
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes += static_cast<char>(i * i % 253);
  const auto* raw = reinterpret_cast<const Bytef*>(bytes.data());
  const auto want = static_cast<uint32_t>(::crc32(0, raw, static_cast<uInt>(bytes.size())));
  EXPECT_EQ(crc32_of(bytes), want);
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{777}, bytes.size()}) {
    const std::string_view whole = bytes;
    EXPECT_EQ(crc32_of(whole.substr(cut), crc32_of(whole.substr(0, cut))), want) << cut;
  }
}

TEST(Crc32, OfNothingIsWhatCameBefore) {
  EXPECT_EQ(crc32_of({}), 0U);
  EXPECT_EQ(crc32_of({}, 0x1234U), 0x1234U);
  EXPECT_EQ(crc32_text(0x1234U), "00001234");
}

}  // namespace
}  // namespace muster::formats
