// What the decoders of single formats share.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/formats/image/image.h"

namespace muster::formats {

/// What is to be decoded, and how.
struct ImageRequest {
  std::span<const uint8_t> file;
  std::string_view name;
  std::optional<ImageRegion> region;  ///< else the whole image
  ImageOptions options;
};

/// The file's bytes. Throws a usage error if there is none, and an environment error for what is no file
/// and might never end.
std::string read_image_file(const std::filesystem::path& path);

ImageHeader read_jpeg_header(const ImageRequest& request);
ImageHeader read_png_header(const ImageRequest& request);
Image decode_jpeg(const ImageRequest& request);
Image decode_png(const ImageRequest& request);

/// "damaged JPEG file cat.jpg: …"
Error damaged_image(const ImageRequest& request,
                    ImageFormat format,
                    std::string rule,
                    std::string value);

/// Throws unless the image has pixels, and no more than allowed.
void check_image_size(const ImageRequest& request, const ImageHeader& header);

/// The asked region, or all of it. Throws a usage error for one that is not inside.
ImageRegion region_of(const ImageRequest& request, const ImageHeader& header);

/// An image of the region's size, its pixels not yet written.
Image make_image(const ImageRegion& region);

}  // namespace muster::formats
