// Image files: what kind one is, how large its image is, and its pixels as red, green and blue. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace muster::formats {

/// The kinds that are read.
enum class ImageFormat { kJpeg, kPng };

/// "JPEG" or "PNG".
std::string_view to_string(ImageFormat format);

/// An 8-bit image in RGB.
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  std::unique_ptr<uint8_t[]> pixels;  ///< [height, width, 3] uint8: red, green, blue
  /// What the decoder complained of, or empty: see ImageOptions::keep_damaged.
  std::string complaint;

  int64_t bytes() const { return height * width * 3; }
};

/// What the file says of its image, before a pixel is decoded.
struct ImageHeader {
  ImageFormat format = ImageFormat::kJpeg;
  int64_t height = 0;
  int64_t width = 0;
  /// As stored: 1 grey or palette, 2 grey and alpha, 3 colour, 4 CMYK or colour and alpha.
  int channels = 0;
  int bits = 0;  ///< of a channel, as stored: 8 for JPEG; 1, 2, 4, 8 or 16 for PNG
  bool has_palette = false;
  bool is_progressive = false;  ///< a progressive JPEG, or an interlaced PNG
};

/// A part of an image, in pixels.
struct ImageRegion {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;
};

struct ImageOptions {
  /// More are refused before memory is taken. Pillow refuses more than this, too.
  int64_t max_pixels = 178'956'970;
  /// A JPEG whose data are damaged, but not cut short, gives grey or wrong pixels from there on, which
  /// Pillow and torchvision pass on without a word. False: it is refused. True: as they do, and
  /// Image::complaint says what is wrong.
  bool keep_damaged = false;
  /// Above 0: a JPEG that is decoded whole is decoded at 1/jpeg_shrink() of its size, which is faster, and gives other
  /// pixels than resizing it does. Nothing changes for a region, and for PNG.
  int64_t least_side = 0;
};

/// 8, 4, 2 or 1: the greatest with which both sides, divided by it, are still `least_side` or more, as Pillow's
/// Image.draft(None, (least_side, least_side)) has it. Sides of the image are then rounded up: 1,001 becomes 126.
/// 1 for a least side of 0. Pure.
int64_t jpeg_shrink(int64_t height, int64_t width, int64_t least_side);

/// By its first bytes, not by its name; nothing if it is of another kind.
std::optional<ImageFormat> image_format(std::span<const uint8_t> file);

/// The image of a JPEG or PNG file that is in memory, to the byte as Pillow's
/// Image.open(f).convert("RGB") has it: grey is repeated; CMYK is taken as Adobe writes it (inverted);
/// alpha, transparent colours, gamma, profiles and EXIF's orientation are left aside; 16-bit colour is
/// cut to its high byte, 16-bit grey above 255 is white; palette entries that are not there are black.
/// JPEG as libjpeg's slow integer transform and its triangle filter for chroma give it, which are the
/// defaults there and in Pillow.
///
/// `name` stands in errors where the path would. Memory is bounded before it is taken: by
/// options.max_pixels, and by what a file of this size can hold at all. Any thread; nothing is kept
/// between calls.
///
/// Throws an environment error that names the file for one that is damaged, cut short, too large, or
/// of another kind; with the place in the file, about, where there is one.
///
/// Source: ITU-T T.81 (JPEG), ISO/IEC 15948 (PNG), by libjpeg-turbo and libpng.
Image decode_image(std::span<const uint8_t> file,
                   std::string_view name,
                   const ImageOptions& options = {});

/// The same, and no more than this part of it: equal to that part of decode_image(), and faster, since
/// what lies below is not decoded, and of a JPEG only the blocks in and around the region are
/// transformed. Damage below the region is not seen. Throws as decode_image(), and a usage error for a
/// region that is empty or not inside the image.
Image decode_image(std::span<const uint8_t> file,
                   std::string_view name,
                   const ImageRegion& region,
                   const ImageOptions& options = {});

/// Reads no pixels. Throws as decode_image().
ImageHeader read_image_header(std::span<const uint8_t> file,
                              std::string_view name,
                              const ImageOptions& options = {});

/// decode_image() of a file on disk. Throws a usage error if there is no such file.
Image read_image(const std::filesystem::path& path, const ImageOptions& options = {});

}  // namespace muster::formats
