// Pixels in other places, as torchvision.transforms.v2.functional has it.
#pragma once

#include <array>
#include <span>

#include <ATen/core/Tensor.h>

#include "muster/image/geometry/place.h"

namespace muster::data::functional {

// Images are [C, H, W] of uint8, float32 or float64 on the CPU; every one throws a usage error for
// others. Results share no memory with what they are made of, unless it is said.

at::Tensor horizontal_flip(const at::Tensor& image);
at::Tensor vertical_flip(const at::Tensor& image);

/// Pixels on each side.
struct Padding {
  int64_t left = 0;
  int64_t top = 0;
  int64_t right = 0;
  int64_t bottom = 0;

  bool any() const { return left != 0 || top != 0 || right != 0 || bottom != 0; }
};

/// `fill`: a value for all channels, or one for each; none is 0. Of bytes it is cut off to one. It
/// counts for kConstant alone. Throws a usage error for a padding below 0, or a mirror that is too
/// narrow.
at::Tensor pad(const at::Tensor& image,
               const Padding& padding,
               image::Border border = image::Border::kConstant,
               std::span<const double> fill = {});

/// The part of `height` x `width` pixels whose corner is (top, left), which may reach beyond the
/// image: there it is 0.
at::Tensor crop(const at::Tensor& image, int64_t top, int64_t left, int64_t height, int64_t width);

/// crop() of pad(), at once.
at::Tensor crop_of_padded(const at::Tensor& image,
                          const Padding& padding,
                          image::Border border,
                          std::span<const double> fill,
                          int64_t top,
                          int64_t left,
                          int64_t height,
                          int64_t width);

/// The middle; halves of a pixel go to the even one. An image that is too small gets a border of 0
/// first.
at::Tensor center_crop(const at::Tensor& image, int64_t height, int64_t width);

/// The row or column of an axis of `whole` pixels at which its middle `size` begin: below 0 where there
/// are too few.
int64_t center_begin(int64_t whole, int64_t size);

/// Sets a part to `values` // [C or 1, h or 1, w or 1] float32. The part lies inside.
at::Tensor erase(const at::Tensor& image,
                 int64_t top,
                 int64_t left,
                 int64_t height,
                 int64_t width,
                 const at::Tensor& values);

}  // namespace muster::data::functional
