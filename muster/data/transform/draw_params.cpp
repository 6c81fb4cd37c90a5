#include "muster/data/transform/draw_params.h"

#include <algorithm>
#include <cmath>

#include <ATen/ops/tensor.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::data {
namespace {

/// As Python's int(round(x)): halves go to the even number.
int64_t rounded_even(double value) { return std::llrint(value); }

double area_of(const image::Size& image) { return static_cast<double>(image.height * image.width); }

}  // namespace

PaddedCrop draw_padded_crop(const image::Size& image,
                            const image::Size& size,
                            const functional::Padding& padding,
                            bool if_needed,
                            Draws& draws) {
  PaddedCrop crop{padding, {0, 0, size.height, size.width}};
  int64_t height = image.height + padding.top + padding.bottom;
  int64_t width = image.width + padding.left + padding.right;
  if (if_needed && height < size.height) {
    const int64_t lacks = size.height - height;
    crop.padding.top += lacks;
    crop.padding.bottom += lacks;
    height += 2 * lacks;
  }
  if (if_needed && width < size.width) {
    const int64_t lacks = size.width - width;
    crop.padding.left += lacks;
    crop.padding.right += lacks;
    width += 2 * lacks;
  }
  if (height < size.height || width < size.width) {
    throw usage_error({.refused = concat("a cut-out of ", size.height, " x ", size.width),
                       .rule = "it is no larger than the image with its padding",
                       .value = concat(height, " x ", width),
                       .hint = "pad_if_needed=true"});
  }
  if (height > size.height) crop.box.top = draws.integer(0, height - size.height + 1);
  if (width > size.width) crop.box.left = draws.integer(0, width - size.width + 1);
  return crop;
}

Box draw_resized_crop(const image::Size& image,
                      const Range& scale,
                      const Range& ratio,
                      Draws& draws) {
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    const double area = area_of(image) * draws.uniform(scale[0], scale[1]);
    const double shape = draws.log_uniform(ratio[0], ratio[1]);
    const int64_t width = rounded_even(std::sqrt(area * shape));
    const int64_t height = rounded_even(std::sqrt(area / shape));
    if (width < 1 || width > image.width || height < 1 || height > image.height) continue;
    const int64_t top = draws.integer(0, image.height - height + 1);
    const int64_t left = draws.integer(0, image.width - width + 1);
    return {top, left, height, width};
  }
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  Box box{0, 0, image.height, image.width};
  if (width / height < ratio[0]) box.height = rounded_even(width / ratio[0]);
  if (width / height > ratio[1]) box.width = rounded_even(height * ratio[1]);
  box.top = (image.height - box.height) / 2;
  box.left = (image.width - box.width) / 2;
  return box;
}

functional::Affine draw_affine(const image::Size& image, const AffineRanges& ranges, Draws& draws) {
  functional::Affine drawn{.angle = draws.uniform(ranges.degrees[0], ranges.degrees[1])};
  if (ranges.translate) {
    const double x = ranges.translate->x * static_cast<double>(image.width);
    const double y = ranges.translate->y * static_cast<double>(image.height);
    drawn.translate.x = static_cast<double>(rounded_even(draws.uniform(-x, x)));
    drawn.translate.y = static_cast<double>(rounded_even(draws.uniform(-y, y)));
  }
  if (ranges.scale) drawn.scale = draws.uniform((*ranges.scale)[0], (*ranges.scale)[1]);
  if (ranges.shear.size() >= 2) drawn.shear.x = draws.uniform(ranges.shear[0], ranges.shear[1]);
  if (ranges.shear.size() == 4) drawn.shear.y = draws.uniform(ranges.shear[2], ranges.shear[3]);
  return drawn;
}

functional::PerspectiveCoefficients draw_perspective(const image::Size& image,
                                                     double distortion,
                                                     Draws& draws) {
  const auto reach = [&](int64_t side) {
    return static_cast<int64_t>(distortion * static_cast<double>(side / 2)) + 1;
  };
  const int64_t right = image.width, below = image.height;
  const int64_t x = reach(right), y = reach(below);
  const auto corner = [&](bool at_right, bool at_bottom) {
    functional::Point point;
    point.x = static_cast<double>(at_right ? draws.integer(right - x, right) : draws.integer(0, x));
    point.y =
        static_cast<double>(at_bottom ? draws.integer(below - y, below) : draws.integer(0, y));
    return point;
  };
  std::array<functional::Point, 4> to;
  to[0] = corner(false, false);
  to[1] = corner(true, false);
  to[2] = corner(true, true);
  to[3] = corner(false, true);
  const auto w = static_cast<double>(right - 1), h = static_cast<double>(below - 1);
  const std::array<functional::Point, 4> from{{{0, 0}, {w, 0}, {w, h}, {0, h}}};
  return functional::perspective_coefficients(from, to);
}

ColorJitter draw_color_jitter(const ColorJitterRanges& ranges, Draws& draws) {
  ColorJitter drawn{.order = draws.permutation(4)};
  const auto draw = [&](const std::optional<Range>& range, std::optional<double>& value) {
    if (range) value = draws.uniform((*range)[0], (*range)[1]);
  };
  draw(ranges.brightness, drawn.brightness);
  draw(ranges.contrast, drawn.contrast);
  draw(ranges.saturation, drawn.saturation);
  draw(ranges.hue, drawn.hue);
  return drawn;
}

std::optional<Erasing> draw_erasing(int64_t channels,
                                    const image::Size& image,
                                    const ErasingOptions& options,
                                    Draws& draws) {
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    const double area = area_of(image) * draws.uniform(options.scale[0], options.scale[1]);
    const double shape = draws.log_uniform(options.ratio[0], options.ratio[1]);
    const int64_t height = rounded_even(std::sqrt(area * shape));
    const int64_t width = rounded_even(std::sqrt(area / shape));
    if (height >= image.height || width >= image.width) continue;
    Erasing drawn;
    drawn.values =
        options.value.empty()
            ? draws.normal({channels, height, width})
            : at::tensor(at::ArrayRef<double>(options.value), at::kFloat).view({-1, 1, 1});
    const int64_t top = draws.integer(0, image.height - height + 1);
    const int64_t left = draws.integer(0, image.width - width + 1);
    drawn.box = {top, left, height, width};
    return drawn;
  }
  return std::nullopt;
}

}  // namespace muster::data
