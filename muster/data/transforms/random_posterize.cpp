// torchvision's RandomPosterize.
#include "muster/data/functional/color.h"
#include "muster/data/transform/image_step.h"

namespace muster::data {
namespace {

struct RandomPosterizeOptions {
  int64_t bits = -1;
  double p = 0.5;
};

constexpr Param kRandomPosterizeParams[] = {
    param<&RandomPosterizeOptions::bits>("bits", "kept of each value, 0 to 8"),
    param<&RandomPosterizeOptions::p>("p", "how likely a sample is changed, 0 to 1"),
};

std::shared_ptr<const Transform> make_random_posterize(const ParamValues& values,
                                                       const DataSpec& before) {
  const auto options = resolve_params<RandomPosterizeOptions>(
      kRandomPosterizeParams, values, "transform random_posterize");
  check_images("random_posterize", before);
  const ImageOptions read("random_posterize");
  read.check_probability(options.p);
  read.check_in("bits", static_cast<double>(options.bits), 0, 8);
  return image_step_with(options.p, before, [bits = options.bits](const at::Tensor& image, Draws&) {
    return functional::posterize(image, bits);
  });
}

}  // namespace

extern constinit const TransformEntry random_posterize_entry{
    .name = "random_posterize",
    .help = "some samples with fewer bits in each value",
    .params = kRandomPosterizeParams,
    .make = &make_random_posterize,
};

}  // namespace muster::data
