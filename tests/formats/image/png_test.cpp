// PNG files that are damaged, or claim what they cannot hold.
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/formats/crc32.h"
#include "muster/formats/image/image.h"

#include "tests/support/error_of.h"
#include "tests/support/paths.h"

namespace muster::formats {
namespace {

using ::testing::HasSubstr;

std::string png_input(std::string_view file) {
  return read_file(test::source_path(concat("tests/golden/images/input/", file)));
}

std::span<const uint8_t> png_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string png_refusal(const std::string& file) {
  return test::refusal_of([&] { decode_image(png_bytes(file), "dogs/3.png"); },
                          ErrorKind::kEnvironment);
}

/// Writes a number into the chunk that begins at `at`, and its checksum.
void put_in_chunk(std::string& file, size_t at, size_t offset, uint32_t value) {
  const auto put = [&](size_t where, uint32_t number) {
    for (size_t i = 0; i < 4; ++i) file[where + i] = static_cast<char>(number >> (24 - 8 * i));
  };
  put(at + 8 + offset, value);
  const auto length = static_cast<size_t>(static_cast<uint8_t>(file[at + 3]));
  put(at + 8 + length, crc32_of(std::string_view(file).substr(at + 4, length + 4)));
}

TEST(PngDamage, AWrongChecksumIsRefusedWithItsPlace) {
  std::string file = png_input("colour8.png");
  const size_t data = file.find("IDAT") + 30;
  file[data] = static_cast<char>(file[data] ^ 1);
  const std::string text = png_refusal(file);
  EXPECT_THAT(text, HasSubstr("damaged PNG file dogs/3.png"));
  EXPECT_THAT(text, HasSubstr(concat(" of ", file.size())));
}

TEST(PngDamage, ATruncatedFileIsRefusedWithItsLength) {
  const std::string file = png_input("colour8.png").substr(0, 100);
  EXPECT_THAT(png_refusal(file), HasSubstr("cut short after 100 bytes"));
}

TEST(PngDamage, TooFewRowsAreRefused) {
  std::string file = png_input("colour8.png");
  put_in_chunk(file, 8, 4, 12);  // of 11
  EXPECT_THAT(png_refusal(file), HasSubstr("Not enough image data"));
}

TEST(PngDamage, AHeaderThatClaimsMoreThanTheFileCanHoldIsRefused) {
  std::string file = png_input("colour8.png");
  put_in_chunk(file, 8, 0, 12000);
  put_in_chunk(file, 8, 4, 12000);
  EXPECT_THAT(png_refusal(file), HasSubstr("an image of 12000 x 12000 takes 418604 bytes or more"));
  put_in_chunk(file, 8, 0, 0x7fffffff);
  put_in_chunk(file, 8, 4, 0x7fffffff);
  EXPECT_THAT(png_refusal(file), HasSubstr("at most 178956970 pixels"));
}

TEST(PngDamage, APaletteThatIsMissingIsRefused) {
  std::string file = png_input("palette8.png");
  const size_t palette = file.find("PLTE") - 4;
  file.erase(palette, file.find("IDAT") - 4 - palette);
  EXPECT_THAT(png_refusal(file), HasSubstr("Missing PLTE"));
}

TEST(PngDamage, PackedTextsAndProfilesAreNotUnpacked) {
  // A text chunk whose checksum holds and whose deflate stream does not.
  std::string file = png_input("colour8.png");
  const std::string whole = file;
  std::string chunk("\0\0\0\x08zTXtk\0\0garbl", 16);
  chunk += std::string(4, '\0');
  file.insert(33, chunk);
  put_in_chunk(file, 33, 4, 0x20202020);
  const Image image = decode_image(png_bytes(file), "f"),
              plain = decode_image(png_bytes(whole), "f");
  EXPECT_EQ(std::memcmp(image.pixels.get(), plain.pixels.get(), static_cast<size_t>(plain.bytes())),
            0);
}

}  // namespace
}  // namespace muster::formats
