#include "muster/formats/image/image_part.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "muster/formats/image/decoders.h"

namespace muster::formats {
namespace {

/// Behind its end marker a JPEG file may have a little that is none of it.
bool has_end(std::string_view jpeg) {
  constexpr size_t kBehind = 2048;
  const size_t from = jpeg.size() - std::min(jpeg.size(), kBehind);
  return jpeg.find("\xff\xd9", from) != std::string_view::npos;
}

Image cut_out(const Image& whole, const ImageRegion& region) {
  Image part = make_image(region);
  part.complaint = whole.complaint;
  const auto row_bytes = static_cast<size_t>(region.width) * 3;
  for (int64_t row = 0; row < region.height; ++row) {
    const int64_t from = ((region.top + row) * whole.width + region.left) * 3;
    std::memcpy(part.pixels.get() + static_cast<size_t>(row) * row_bytes,
                whole.pixels.get() + from,
                row_bytes);
  }
  return part;
}

}  // namespace

Image decode_image_part(std::span<const uint8_t> file,
                        std::string_view name,
                        const ChooseRegion& choose,
                        const ImageOptions& options) {
  const ImageHeader header = read_image_header(file, name, options);
  const ImageRegion region = choose(header.height, header.width);
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (header.format != ImageFormat::kJpeg || has_end(text))
    return decode_image(file, name, region, options);
  const Image whole = decode_image(file, name, options);
  const ImageRequest request{.file = file, .name = name, .region = region, .options = options};
  return cut_out(whole, region_of(request, header));
}

}  // namespace muster::formats
