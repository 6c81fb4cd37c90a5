#include "muster/data/transform/augment.h"

#include <array>
#include <cmath>
#include <numbers>

#include <ATen/ops/linspace.h>

#include "muster/data/functional/color.h"
#include "muster/data/functional/pixels.h"

namespace muster::data {
namespace {

constexpr AugmentOp kOps[] = {AugmentOp::kIdentity,
                              AugmentOp::kShearX,
                              AugmentOp::kShearY,
                              AugmentOp::kTranslateX,
                              AugmentOp::kTranslateY,
                              AugmentOp::kRotate,
                              AugmentOp::kBrightness,
                              AugmentOp::kColor,
                              AugmentOp::kContrast,
                              AugmentOp::kSharpness,
                              AugmentOp::kPosterize,
                              AugmentOp::kSolarize,
                              AugmentOp::kAutoContrast,
                              AugmentOp::kEqualize};

/// float32, as torch.linspace rounds it.
double step_of(double from, double to, int64_t bins, int64_t index) {
  return at::linspace(from, to, bins, at::kFloat)[index].item<float>();
}

double degrees_of_slope(double slope) { return std::atan(slope) * (180.0 / std::numbers::pi); }

}  // namespace

std::span<const AugmentOp> augment_ops() { return kOps; }

std::optional<double> magnitude_of(AugmentOp op,
                                   const AugmentSpace& space,
                                   int64_t bins,
                                   int64_t index,
                                   int64_t height,
                                   int64_t width) {
  const auto up_to = [&](double most) { return step_of(0.0, most, bins, index); };
  const auto shift = [&](int64_t side) {
    return space.translate_in_pixels ? space.translate
                                     : space.translate * static_cast<double>(side);
  };
  switch (op) {
    case AugmentOp::kShearX:
    case AugmentOp::kShearY:
      return up_to(space.shear);
    case AugmentOp::kTranslateX:
      return up_to(shift(width));
    case AugmentOp::kTranslateY:
      return up_to(shift(height));
    case AugmentOp::kRotate:
      return up_to(space.rotate);
    case AugmentOp::kBrightness:
    case AugmentOp::kColor:
    case AugmentOp::kContrast:
    case AugmentOp::kSharpness:
      return up_to(space.color);
    case AugmentOp::kPosterize: {
      // arange is of whole numbers, so the quotient is float32; halves go to the even number.
      const auto step = static_cast<float>(static_cast<double>(bins - 1) / space.lost_bits);
      return std::nearbyint(8.0F - static_cast<float>(index) / step);
    }
    case AugmentOp::kSolarize:
      return step_of(1.0, 0.0, bins, index);
    case AugmentOp::kIdentity:
    case AugmentOp::kAutoContrast:
    case AugmentOp::kEqualize:
    case AugmentOp::kInvert:
      break;
  }
  return std::nullopt;
}

bool is_signed(AugmentOp op) { return op >= AugmentOp::kShearX && op <= AugmentOp::kSharpness; }

at::Tensor augmented(const at::Tensor& image,
                     AugmentOp op,
                     double magnitude,
                     functional::Interpolation interpolation,
                     const functional::Fill& fill) {
  const auto warped = [&](const functional::Affine& change) {
    return functional::affine(image, change, interpolation, fill);
  };
  const functional::Point corner{0, 0};
  switch (op) {
    case AugmentOp::kIdentity:
      return image;
    case AugmentOp::kShearX:
      return warped({.shear = {degrees_of_slope(magnitude), 0}, .center = corner});
    case AugmentOp::kShearY:
      return warped({.shear = {0, degrees_of_slope(magnitude)}, .center = corner});
    case AugmentOp::kTranslateX:
      return warped({.translate = {std::trunc(magnitude), 0}});
    case AugmentOp::kTranslateY:
      return warped({.translate = {0, std::trunc(magnitude)}});
    case AugmentOp::kRotate:
      return functional::rotate(image, {.angle = magnitude}, interpolation, fill);
    case AugmentOp::kBrightness:
      return functional::adjust_brightness(image, 1.0 + magnitude);
    case AugmentOp::kColor:
      return functional::adjust_saturation(image, 1.0 + magnitude);
    case AugmentOp::kContrast:
      return functional::adjust_contrast(image, 1.0 + magnitude);
    case AugmentOp::kSharpness:
      return functional::adjust_sharpness(image, 1.0 + magnitude);
    case AugmentOp::kPosterize:
      return functional::posterize(image, static_cast<int64_t>(magnitude));
    case AugmentOp::kSolarize:
      return functional::solarize(image,
                                  (image.scalar_type() == at::kByte ? 255.0 : 1.0) * magnitude);
    case AugmentOp::kAutoContrast:
      return functional::autocontrast(image);
    case AugmentOp::kEqualize:
      return functional::equalize(image);
    case AugmentOp::kInvert:
      return functional::invert(image);
  }
  return image;
}

}  // namespace muster::data
