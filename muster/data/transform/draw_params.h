// The random parameters of torchvision's transforms, by its formulas and in its order of draws.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "muster/data/draws.h"
#include "muster/data/functional/place.h"
#include "muster/data/functional/warp.h"
#include "muster/image/resample/resize.h"

namespace muster::data {

/// A part of an image.
struct Box {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;
};

/// Least and greatest.
using Range = std::array<double, 2>;

/// The part of a padded image that is kept.
struct PaddedCrop {
  functional::Padding padding;
  Box box;
};
/// A row is drawn if there is more than one place, and then a column. With `if_needed` an image that
/// is too small is padded by all that lacks, on both sides. Throws a usage error that names both
/// sizes where it is too small.
PaddedCrop draw_padded_crop(const image::Size& image,
                            const image::Size& size,
                            const functional::Padding& padding,
                            bool if_needed,
                            Draws& draws);

/// Ten tries of a part with `scale` of the area and a ratio of width to height in `ratio`; then the
/// middle, as near to those ratios as it goes.
Box draw_resized_crop(const image::Size& image,
                      const Range& scale,
                      const Range& ratio,
                      Draws& draws);

struct AffineRanges {
  Range degrees{};
  std::optional<functional::Point> translate;  ///< parts of width and height, 0 … 1
  std::optional<Range> scale;
  std::vector<double> shear;  ///< degrees: none, [least,most] for x, or both for x and y
};
functional::Affine draw_affine(const image::Size& image, const AffineRanges& ranges, Draws& draws);

/// The corners move inwards by up to half of `distortion` of the side.
functional::PerspectiveCoefficients draw_perspective(const image::Size& image,
                                                     double distortion,
                                                     Draws& draws);

struct ColorJitterRanges {
  std::optional<Range> brightness, contrast, saturation, hue;
};
struct ColorJitter {
  std::vector<int64_t> order;  ///< of the four: 0 brightness, 1 contrast, 2 saturation, 3 hue
  std::optional<double> brightness, contrast, saturation, hue;
};
ColorJitter draw_color_jitter(const ColorJitterRanges& ranges, Draws& draws);

struct ErasingOptions {
  Range scale{0.02, 0.33};       ///< of the area
  Range ratio{0.3, 3.3};         ///< of height to width
  std::vector<double> value{0};  ///< one, or one per channel; none: normal numbers
};
struct Erasing {
  Box box;
  at::Tensor values;  ///< [C or 1, h or 1, w or 1] float32
};
/// Nothing where ten tries found no part that is smaller than the image.
std::optional<Erasing> draw_erasing(int64_t channels,
                                    const image::Size& image,
                                    const ErasingOptions& options,
                                    Draws& draws);

}  // namespace muster::data
