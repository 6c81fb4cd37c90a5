#include "muster/data/functional/pixels.h"

#include <ATen/ops/empty.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/dtype_name.h"

namespace muster::data::functional {

void check_image(std::string_view what, const at::Tensor& image) {
  const bool known = image.scalar_type() == at::kByte || image.scalar_type() == at::kFloat ||
                     image.scalar_type() == at::kDouble;
  if (image.dim() == 3 && image.numel() > 0 && known && image.device().is_cpu()) return;
  throw usage_error(
      {.refused = concat(what, " of an image"),
       .rule =
           "it is [channels, height, width] of uint8, float32 or float64 on the CPU, with pixels",
       .value = concat(image.sizes(),
                       " of ",
                       tensor::dtype_name(image.scalar_type()),
                       " on ",
                       image.device().str())});
}

HeldPixels pixels_of(const at::Tensor& image) {
  HeldPixels held{image, {}};
  const auto view = [](const at::Tensor& memory) {
    return image::Pixels{memory.const_data_ptr<uint8_t>(),
                         memory.size(0),
                         memory.size(1),
                         memory.size(2),
                         memory.stride(0),
                         memory.stride(1),
                         memory.stride(2)};
  };
  held.pixels = view(held.memory);
  if (!held.pixels.is_planar() && !held.pixels.is_interleaved()) {
    held.memory = image.contiguous();
    held.pixels = view(held.memory);
    held.pixels.pixel_stride = 1;  // of a single column, it may be anything
  }
  return held;
}

image::MutablePixels pixels_to_fill(at::Tensor& image) {
  return image::planar(
      image.mutable_data_ptr<uint8_t>(), image.size(0), image.size(1), image.size(2));
}

at::Tensor new_bytes(int64_t channels, int64_t height, int64_t width) {
  return at::empty({channels, height, width}, at::kByte);
}

}  // namespace muster::data::functional
