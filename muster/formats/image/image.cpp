#include "muster/formats/image/image.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/formats/image/decoders.h"

namespace muster::formats {
namespace {

using namespace std::string_view_literals;

bool has_at(std::span<const uint8_t> file, size_t at, std::string_view bytes) {
  return file.size() >= at + bytes.size() &&
         std::equal(bytes.begin(),
                    bytes.end(),
                    file.begin() + static_cast<ptrdiff_t>(at),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

/// Other kinds that end up among images, for the error.
std::string other_kind(std::span<const uint8_t> file) {
  if (file.empty()) return "an empty file";
  if (has_at(file, 0, "GIF8")) return "a GIF file";
  if (has_at(file, 0, "RIFF") && has_at(file, 8, "WEBP")) return "a WebP file";
  if (has_at(file, 0, "BM")) return "a BMP file";
  if (has_at(file, 0, "II*\0"sv) || has_at(file, 0, "MM\0*"sv)) return "a TIFF file";
  if (has_at(file, 4, "ftypavif")) return "an AVIF file";
  if (has_at(file, 4, "ftyphei") || has_at(file, 4, "ftypmif1")) return "a HEIF file";
  if (file.size() > 2 && file[0] == 'P' && file[1] >= '1' && file[1] <= '6') return "a PNM file";
  if (has_at(file, 0, "<")) return "text that begins as HTML or SVG does";
  std::string bytes;
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (size_t i = 0; i < std::min<size_t>(file.size(), 4); ++i)
    bytes += {' ', kDigits[file[i] >> 4], kDigits[file[i] & 15]};
  return concat(file.size(), " bytes that begin with", bytes);
}

ImageFormat format_of(const ImageRequest& request) {
  if (const auto format = image_format(request.file)) return *format;
  throw environment_error({.refused = concat("image file ", request.name),
                           .rule = "JPEG and PNG are read, known by their first bytes",
                           .value = other_kind(request.file),
                           .hint = "convert it, or leave it out"});
}

Image decode(const ImageRequest& request) {
  return format_of(request) == ImageFormat::kJpeg ? decode_jpeg(request) : decode_png(request);
}

}  // namespace

std::string_view to_string(ImageFormat format) {
  return format == ImageFormat::kJpeg ? "JPEG" : "PNG";
}

std::optional<ImageFormat> image_format(std::span<const uint8_t> file) {
  if (has_at(file, 0, "\xff\xd8\xff")) return ImageFormat::kJpeg;
  if (has_at(file, 0, "\x89PNG\r\n\x1a\n")) return ImageFormat::kPng;
  return std::nullopt;
}

int64_t jpeg_shrink(int64_t height, int64_t width, int64_t least_side) {
  if (least_side <= 0) return 1;
  const int64_t most = std::min(height, width) / least_side;
  return most >= 8 ? 8 : most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

Image decode_image(std::span<const uint8_t> file,
                   std::string_view name,
                   const ImageOptions& options) {
  return decode({.file = file, .name = name, .options = options});
}

Image decode_image(std::span<const uint8_t> file,
                   std::string_view name,
                   const ImageRegion& region,
                   const ImageOptions& options) {
  return decode({.file = file, .name = name, .region = region, .options = options});
}

ImageHeader read_image_header(std::span<const uint8_t> file,
                              std::string_view name,
                              const ImageOptions& options) {
  const ImageRequest request{.file = file, .name = name, .options = options};
  return format_of(request) == ImageFormat::kJpeg ? read_jpeg_header(request)
                                                  : read_png_header(request);
}

std::string read_image_file(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::file_status found = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found)) {
    throw environment_error({.refused = concat("image file ", path.string()),
                             .rule = "it is a file",
                             .value = "a pipe, a socket or a device",
                             .hint = "leave it out"});
  }
  return read_file(path);
}

Image read_image(const std::filesystem::path& path, const ImageOptions& options) {
  const std::string file = read_image_file(path);
  return decode_image(
      {reinterpret_cast<const uint8_t*>(file.data()), file.size()}, path.string(), options);
}

Error damaged_image(const ImageRequest& request,
                    ImageFormat format,
                    std::string rule,
                    std::string value) {
  return environment_error(
      {.refused = concat("damaged ", to_string(format), " file ", request.name),
       .rule = std::move(rule),
       .value = std::move(value),
       .hint = "get the file again from where it came, or leave it out"});
}

void check_image_size(const ImageRequest& request, const ImageHeader& header) {
  const std::string size = concat(header.width, " x ", header.height);
  if (header.width < 1 || header.height < 1)
    throw damaged_image(request, header.format, "an image has at least one pixel", size);
  if (header.width <= request.options.max_pixels / header.height) return;
  throw environment_error(
      {.refused = concat("image file ", request.name),
       .rule = concat("an image has at most ", request.options.max_pixels, " pixels"),
       .value = size,
       .hint = "make it smaller, or leave it out: a small file that claims a huge image is often "
               "made to "
               "exhaust memory"});
}

ImageRegion region_of(const ImageRequest& request, const ImageHeader& header) {
  if (!request.region) return {.height = header.height, .width = header.width};
  const ImageRegion& region = *request.region;
  const auto inside = [](int64_t from, int64_t count, int64_t all) {
    return from >= 0 && count >= 1 && count <= all && from <= all - count;
  };
  if (inside(region.top, region.height, header.height) &&
      inside(region.left, region.width, header.width))
    return region;
  throw usage_error(
      {.refused = concat("region of the image ", request.name),
       .rule = concat("a part of its ", header.width, " x ", header.height, " pixels"),
       .value = concat(region.width,
                       " x ",
                       region.height,
                       " from column ",
                       region.left,
                       ", row ",
                       region.top)});
}

Image make_image(const ImageRegion& region) {
  Image image{.height = region.height, .width = region.width};
  image.pixels = std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(image.bytes()));
  return image;
}

}  // namespace muster::formats
