// torchvision's ColorJitter.
#include <algorithm>
#include <limits>

#include "muster/base/text.h"
#include "muster/data/functional/color.h"
#include "muster/data/transform/draw_params.h"
#include "muster/data/transform/image_step.h"

namespace muster::data {
namespace {

struct ColorJitterOptions {
  std::vector<double> brightness;
  std::vector<double> contrast;
  std::vector<double> saturation;
  std::vector<double> hue;
};

constexpr Param kColorJitterParams[] = {
    param<&ColorJitterOptions::brightness>("brightness", "x: by 1-x to 1+x; or [least,most]; none"),
    param<&ColorJitterOptions::contrast>("contrast", "the same"),
    param<&ColorJitterOptions::saturation>("saturation", "the same"),
    param<&ColorJitterOptions::hue>("hue",
                                    "x: by -x to x of the circle, at most 0.5; or [least,most]"),
};

/// One number reaches to both sides of `center`. Nothing where it changes nothing.
std::optional<Range> jitter_range(const ImageOptions& read,
                                  std::string_view name,
                                  const std::vector<double>& values,
                                  double center,
                                  double least,
                                  double most) {
  if (values.empty()) return std::nullopt;
  std::vector<double> range = values;
  if (values.size() == 1) {
    if (values[0] < 0) read.refuse(name, "one number is at least 0", shortest(values[0]));
    range = {center - values[0], center + values[0]};
    if (center > 0) range[0] = std::max(range[0], 0.0);
  }
  read.check_range(name, range, least, most);
  if (range[0] == center && range[1] == center) return std::nullopt;
  return Range{range[0], range[1]};
}

at::Tensor jittered(at::Tensor image, const ColorJitter& drawn) {
  for (const int64_t step : drawn.order) {
    if (step == 0 && drawn.brightness)
      image = functional::adjust_brightness(image, *drawn.brightness);
    if (step == 1 && drawn.contrast) image = functional::adjust_contrast(image, *drawn.contrast);
    if (step == 2 && drawn.saturation)
      image = functional::adjust_saturation(image, *drawn.saturation);
    if (step == 3 && drawn.hue) image = functional::adjust_hue(image, *drawn.hue);
  }
  return image;
}

std::shared_ptr<const Transform> make_color_jitter(const ParamValues& values,
                                                   const DataSpec& before) {
  const auto options =
      resolve_params<ColorJitterOptions>(kColorJitterParams, values, "transform color_jitter");
  check_images("color_jitter", before);
  const ImageOptions read("color_jitter");
  read.check_colors(before);
  constexpr double kMost = 1e6;
  const ColorJitterRanges ranges{
      .brightness = jitter_range(read, "brightness", options.brightness, 1, 0, kMost),
      .contrast = jitter_range(read, "contrast", options.contrast, 1, 0, kMost),
      .saturation = jitter_range(read, "saturation", options.saturation, 1, 0, kMost),
      .hue = jitter_range(read, "hue", options.hue, 0, -0.5, 0.5)};
  return image_step(before, [ranges](const at::Tensor& image, Draws& draws) {
    return jittered(image, draw_color_jitter(ranges, draws));
  });
}

}  // namespace

extern constinit const TransformEntry color_jitter_entry{
    .name = "color_jitter",
    .help =
        "brightness, contrast, saturation and hue, by other amounts and in another order each time",
    .params = kColorJitterParams,
    .make = &make_color_jitter,
};

}  // namespace muster::data
