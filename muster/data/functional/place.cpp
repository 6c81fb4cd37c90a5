#include "muster/data/functional/place.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/pad.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/functional/pixels.h"

namespace muster::data::functional {
namespace {

bool has_bytes(const at::Tensor& image) { return image.scalar_type() == at::kByte; }

/// The image in a new one of `height` x `width`, its corner at (top, left).
at::Tensor placed(const at::Tensor& image,
                  int64_t height,
                  int64_t width,
                  int64_t top,
                  int64_t left,
                  image::Border border,
                  std::span<const uint8_t> fill) {
  const HeldPixels held = pixels_of(image);
  at::Tensor out = new_bytes(image.size(0), height, width);
  image::place(held.pixels, pixels_to_fill(out), top, left, border, fill);
  return out;
}

/// A float becomes a byte in LibTorch: cut off to a whole number, then to 8 bits.
uint8_t fill_byte(double value) {
  return static_cast<uint8_t>(static_cast<int64_t>(static_cast<float>(value)));
}

std::vector<uint8_t> fill_bytes(std::span<const double> fill) {
  std::vector<uint8_t> bytes;
  for (const double value : fill) bytes.push_back(fill_byte(value));
  return bytes;
}

/// Rows and columns by number: torchvision's symmetric mode, which LibTorch's pad does not have.
at::Tensor padded_symmetric(const at::Tensor& image, const Padding& padding) {
  const auto places = [](int64_t before, int64_t size, int64_t after) {
    std::vector<int64_t> all;
    for (int64_t i = -before; i < size + after; ++i)
      all.push_back(i < 0 ? -1 - i : i >= size ? 2 * size - 1 - i : i);
    return at::tensor(all, at::kLong);
  };
  return image.index_select(1, places(padding.top, image.size(1), padding.bottom))
      .index_select(2, places(padding.left, image.size(2), padding.right));
}

void check_pad(const at::Tensor& image,
               const Padding& padding,
               image::Border border,
               std::span<const double> fill) {
  check_image("pad", image);
  const auto refuse_pad = [](std::string rule, int64_t value) {
    throw usage_error(
        {.refused = "pad of an image", .rule = std::move(rule), .value = concat(value)});
  };
  const int64_t least = std::min({padding.left, padding.top, padding.right, padding.bottom});
  if (least < 0) refuse_pad("no side is below 0", least);
  if (fill.size() > 1 && static_cast<int64_t>(fill.size()) != image.size(0))
    refuse_pad(concat("one fill, or one for each of ", image.size(0), " channels"),
               static_cast<int64_t>(fill.size()));
  if (border == image::Border::kConstant || border == image::Border::kEdge) return;
  const int64_t spared = border == image::Border::kReflect ? 1 : 0;
  const int64_t wide = std::max(padding.left, padding.right);
  const int64_t high = std::max(padding.top, padding.bottom);
  const auto check_side = [&](int64_t side, int64_t by) {
    if (by > side - spared)
      refuse_pad(concat("a border \"",
                        image::to_string(border),
                        "\" is at most as wide as what is mirrored, ",
                        side - spared,
                        " pixels"),
                 by);
  };
  check_side(image.size(1), high);
  check_side(image.size(2), wide);
}

at::Tensor padded_floats(const at::Tensor& image,
                         const Padding& p,
                         image::Border border,
                         std::span<const double> fill) {
  if (border == image::Border::kSymmetric) return padded_symmetric(image, p);
  const std::array<int64_t, 4> sides{p.left, p.right, p.top, p.bottom};
  if (border != image::Border::kConstant) {
    const bool mirrors = border == image::Border::kReflect;
    return at::pad(image.unsqueeze(0), sides, mirrors ? "reflect" : "replicate").squeeze(0);
  }
  if (fill.size() <= 1) return at::constant_pad_nd(image, sides, fill.empty() ? 0 : fill[0]);
  const at::Tensor values = at::tensor(at::ArrayRef<double>(fill.data(), fill.size()), at::kFloat)
                                .to(image.scalar_type());
  const int64_t height = image.size(1) + p.top + p.bottom, width = image.size(2) + p.left + p.right;
  at::Tensor out = values.view({-1, 1, 1}).expand({image.size(0), height, width}).contiguous();
  out.narrow(1, p.top, image.size(1)).narrow(2, p.left, image.size(2)).copy_(image);
  return out;
}

}  // namespace

at::Tensor horizontal_flip(const at::Tensor& image) {
  check_image("horizontal_flip", image);
  if (!has_bytes(image)) return image.flip(-1);
  const HeldPixels held = pixels_of(image);
  at::Tensor out = new_bytes(image.size(0), image.size(1), image.size(2));
  image::flip_horizontal(held.pixels, pixels_to_fill(out));
  return out;
}

at::Tensor vertical_flip(const at::Tensor& image) {
  check_image("vertical_flip", image);
  if (!has_bytes(image)) return image.flip(-2);
  const HeldPixels held = pixels_of(image);
  at::Tensor out = new_bytes(image.size(0), image.size(1), image.size(2));
  image::flip_vertical(held.pixels, pixels_to_fill(out));
  return out;
}

at::Tensor pad(const at::Tensor& image,
               const Padding& padding,
               image::Border border,
               std::span<const double> fill) {
  check_pad(image, padding, border, fill);
  if (!has_bytes(image)) return padded_floats(image, padding, border, fill);
  return placed(image,
                image.size(1) + padding.top + padding.bottom,
                image.size(2) + padding.left + padding.right,
                padding.top,
                padding.left,
                border,
                fill_bytes(fill));
}

at::Tensor crop_of_padded(const at::Tensor& image,
                          const Padding& padding,
                          image::Border border,
                          std::span<const double> fill,
                          int64_t top,
                          int64_t left,
                          int64_t height,
                          int64_t width) {
  check_pad(image, padding, border, fill);
  const int64_t padded_height = image.size(1) + padding.top + padding.bottom;
  const int64_t padded_width = image.size(2) + padding.left + padding.right;
  const bool inside = top >= 0 && left >= 0 && height >= 1 && width >= 1 &&
                      top + height <= padded_height && left + width <= padded_width;
  if (!has_bytes(image) || !inside)
    return crop(pad(image, padding, border, fill), top, left, height, width);
  return placed(
      image, height, width, padding.top - top, padding.left - left, border, fill_bytes(fill));
}

at::Tensor crop(const at::Tensor& image, int64_t top, int64_t left, int64_t height, int64_t width) {
  check_image("crop", image);
  if (height < 1 || width < 1)
    throw usage_error({.refused = "crop of an image",
                       .rule = "its sides are at least 1",
                       .value = concat(height, " x ", width)});
  if (has_bytes(image))
    return placed(image, height, width, -top, -left, image::Border::kConstant, {});
  const int64_t from_row = std::clamp<int64_t>(top, 0, image.size(1));
  const int64_t to_row = std::clamp<int64_t>(top + height, from_row, image.size(1));
  const int64_t from_column = std::clamp<int64_t>(left, 0, image.size(2));
  const int64_t to_column = std::clamp<int64_t>(left + width, from_column, image.size(2));
  at::Tensor out = at::zeros({image.size(0), height, width}, image.options());
  if (to_row > from_row && to_column > from_column) {
    out.narrow(1, from_row - top, to_row - from_row)
        .narrow(2, from_column - left, to_column - from_column)
        .copy_(image.narrow(1, from_row, to_row - from_row)
                   .narrow(2, from_column, to_column - from_column));
  }
  return out;
}

int64_t center_begin(int64_t whole, int64_t size) {
  // Where an axis is padded, (size - whole) / 2 pixels come before it, and then nothing is cut.
  if (size > whole) return -((size - whole) / 2);
  return std::lrint(static_cast<double>(whole - size) / 2.0);
}

at::Tensor center_crop(const at::Tensor& image, int64_t height, int64_t width) {
  return crop(image,
              center_begin(image.size(-2), height),
              center_begin(image.size(-1), width),
              height,
              width);
}

at::Tensor erase(const at::Tensor& image,
                 int64_t top,
                 int64_t left,
                 int64_t height,
                 int64_t width,
                 const at::Tensor& values) {
  check_image("erase", image);
  at::Tensor out = image.clone(at::MemoryFormat::Contiguous);
  out.narrow(1, top, height).narrow(2, left, width).copy_(values);
  return out;
}

}  // namespace muster::data::functional
