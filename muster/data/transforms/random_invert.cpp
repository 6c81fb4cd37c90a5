// torchvision's RandomInvert.
#include "muster/data/functional/color.h"
#include "muster/data/transform/image_step.h"

namespace muster::data {
namespace {

struct RandomInvertOptions {
  double p = 0.5;
};

constexpr Param kRandomInvertParams[] = {
    param<&RandomInvertOptions::p>("p", "how likely a sample is changed, 0 to 1"),
};

std::shared_ptr<const Transform> make_random_invert(const ParamValues& values,
                                                    const DataSpec& before) {
  const auto options =
      resolve_params<RandomInvertOptions>(kRandomInvertParams, values, "transform random_invert");
  check_images("random_invert", before);
  const ImageOptions read("random_invert");
  read.check_probability(options.p);
  return image_step_with(
      options.p, before, [](const at::Tensor& image, Draws&) { return functional::invert(image); });
}

}  // namespace

extern constinit const TransformEntry random_invert_entry{
    .name = "random_invert",
    .help = "some samples with their colours inverted",
    .params = kRandomInvertParams,
    .make = &make_random_invert,
};

}  // namespace muster::data
