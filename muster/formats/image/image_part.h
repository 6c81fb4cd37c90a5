// A part of an image file, which is chosen by how large the image is. Torch-free.
#pragma once

#include <functional>

#include "muster/formats/image/image.h"

namespace muster::formats {

/// Of an image of that size, in pixels; inside it.
using ChooseRegion = std::function<ImageRegion(int64_t height, int64_t width)>;

/// That part of decode_image(file, name), and where it can be had no more than that is decoded. A JPEG file
/// without an end marker at its end is decoded as a whole, and so is refused whatever part of it is
/// wanted; other damage is seen where the part, or what lies above it, has it. `choose` is called
/// once. Throws as decode_image(), and what `choose` throws.
Image decode_image_part(std::span<const uint8_t> file,
                        std::string_view name,
                        const ChooseRegion& choose,
                        const ImageOptions& options = {});

}  // namespace muster::formats
