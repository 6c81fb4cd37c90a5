#include "muster/track/tensorboard/image.h"

#include <png.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::track {
namespace {

constexpr int64_t kMaxSide = 65535;

void check(const Image& image) {
  const std::string shape = concat('[', image.height, ", ", image.width, ", ", image.channels, ']');
  if (image.height < 1 || image.width < 1 || image.height > kMaxSide || image.width > kMaxSide) {
    throw usage_error({.refused = "a picture of shape " + shape,
                       .rule = concat("height and width are 1 to ", kMaxSide)});
  }
  if (image.channels != 1 && image.channels != 3 && image.channels != 4) {
    throw usage_error({.refused = "a picture of shape " + shape,
                       .rule = "the last dimension is 1 (grey), 3 (RGB) or 4 (RGBA)",
                       .hint = "the layout is [height, width, channels]"});
  }
  const auto bytes = static_cast<size_t>(image.height * image.width * image.channels);
  if (image.pixels.size() != bytes) {
    throw usage_error({.refused = "a picture of shape " + shape,
                       .rule = concat("it has ", bytes, " bytes"),
                       .value = concat(image.pixels.size(), " bytes")});
  }
}

png_uint_32 format_of(int64_t channels) {
  if (channels == 1) return PNG_FORMAT_GRAY;
  return channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
}

/// libpng's own text is in `png.message`.
Error png_error(const png_image& png) {
  return internal_error({.refused = "cannot encode a PNG", .rule = png.message});
}

}  // namespace

std::string encode_png(const Image& image) {
  check(image);
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = format_of(image.channels);
  // One pass: the size that libpng says is always enough.
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(png), '\0');
  png_alloc_size_t size = bytes.size();
  if (!png_image_write_to_memory(
          &png, bytes.data(), &size, 0, image.pixels.data(), /*row_stride=*/0, nullptr)) {
    throw png_error(png);
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace muster::track
