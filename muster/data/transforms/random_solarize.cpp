// torchvision's RandomSolarize.
#include "muster/data/functional/color.h"
#include "muster/data/transform/image_step.h"

namespace muster::data {
namespace {

struct RandomSolarizeOptions {
  double threshold = -1;
  double p = 0.5;
};

constexpr Param kRandomSolarizeParams[] = {
    param<&RandomSolarizeOptions::threshold>(
        "threshold", "inverted from here on: 0 to 255 of bytes, to 1 of floats"),
    param<&RandomSolarizeOptions::p>("p", "how likely a sample is changed, 0 to 1"),
};

std::shared_ptr<const Transform> make_random_solarize(const ParamValues& values,
                                                      const DataSpec& before) {
  const auto options = resolve_params<RandomSolarizeOptions>(
      kRandomSolarizeParams, values, "transform random_solarize");
  check_images("random_solarize", before);
  const ImageOptions read("random_solarize");
  read.check_probability(options.p);
  read.check_in("threshold", options.threshold, 0, before.dtype == at::kByte ? 255 : 1);
  return image_step_with(
      options.p, before, [threshold = options.threshold](const at::Tensor& image, Draws&) {
        return functional::solarize(image, threshold);
      });
}

}  // namespace

extern constinit const TransformEntry random_solarize_entry{
    .name = "random_solarize",
    .help = "some samples with bright values inverted",
    .params = kRandomSolarizeParams,
    .make = &make_random_solarize,
};

}  // namespace muster::data
