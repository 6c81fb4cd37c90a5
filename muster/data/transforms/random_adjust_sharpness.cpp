// torchvision's RandomAdjustSharpness.
#include "muster/data/functional/color.h"
#include "muster/data/transform/image_step.h"

namespace muster::data {
namespace {

struct RandomAdjustSharpnessOptions {
  double sharpness_factor = -1;
  double p = 0.5;
};

constexpr Param kRandomAdjustSharpnessParams[] = {
    param<&RandomAdjustSharpnessOptions::sharpness_factor>("sharpness_factor",
                                                           "0 is blurred, 1 as it is, 2 sharper"),
    param<&RandomAdjustSharpnessOptions::p>("p", "how likely a sample is changed, 0 to 1"),
};

std::shared_ptr<const Transform> make_random_adjust_sharpness(const ParamValues& values,
                                                              const DataSpec& before) {
  const auto options = resolve_params<RandomAdjustSharpnessOptions>(
      kRandomAdjustSharpnessParams, values, "transform random_adjust_sharpness");
  check_images("random_adjust_sharpness", before);
  const ImageOptions read("random_adjust_sharpness");
  read.check_probability(options.p);
  read.check_colors(before);
  read.check_in("sharpness_factor", options.sharpness_factor, 0, 1e6);
  return image_step_with(
      options.p, before, [factor = options.sharpness_factor](const at::Tensor& image, Draws&) {
        return functional::adjust_sharpness(image, factor);
      });
}

}  // namespace

extern constinit const TransformEntry random_adjust_sharpness_entry{
    .name = "random_adjust_sharpness",
    .help = "some samples sharper, or blurred",
    .params = kRandomAdjustSharpnessParams,
    .make = &make_random_adjust_sharpness,
};

}  // namespace muster::data
