// The operations that rand_augment, trivial_augment_wide and auto_augment choose from.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "muster/data/draws.h"
#include "muster/data/functional/warp.h"

namespace muster::data {

/// Names are torchvision's without their blanks: kColor is saturation.
enum class AugmentOp {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
  kInvert
};

/// How strong the operations get. Lengths that go with the image are parts of its side.
struct AugmentSpace {
  double shear = 0.3;
  double translate = 150.0 / 331.0;
  bool translate_in_pixels = false;
  double rotate = 30;
  double color = 0.9;    ///< brightness, colour, contrast, sharpness
  double lost_bits = 4;  ///< of posterize
};

/// Magnitude number `index` of `bins`, without sign: torch.linspace's float32, or whole bits. Nothing
/// for operations that have none.
std::optional<double> magnitude_of(AugmentOp op,
                                   const AugmentSpace& space,
                                   int64_t bins,
                                   int64_t index,
                                   int64_t height,
                                   int64_t width);
/// Whether its sign is drawn.
bool is_signed(AugmentOp op);

at::Tensor augmented(const at::Tensor& image,
                     AugmentOp op,
                     double magnitude,
                     functional::Interpolation interpolation,
                     const functional::Fill& fill);

/// The operations of rand_augment and trivial_augment_wide, in torchvision's order.
std::span<const AugmentOp> augment_ops();

/// One operation of a policy of auto_augment.
struct PolicyStep {
  AugmentOp op;
  double probability;
  int64_t magnitude;  ///< of 10; none: 0
};
struct Policy {
  PolicyStep first, second;
};
/// "imagenet", "cifar10" or "svhn" (Cubuk et al. 2019, as torchvision lists them); empty for others.
std::span<const Policy> augment_policies(std::string_view name);

}  // namespace muster::data
