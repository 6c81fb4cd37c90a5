// torchvision's RandomEqualize.
#include "muster/data/functional/color.h"
#include "muster/data/transform/image_step.h"

namespace muster::data {
namespace {

struct RandomEqualizeOptions {
  double p = 0.5;
};

constexpr Param kRandomEqualizeParams[] = {
    param<&RandomEqualizeOptions::p>("p", "how likely a sample is changed, 0 to 1"),
};

std::shared_ptr<const Transform> make_random_equalize(const ParamValues& values,
                                                      const DataSpec& before) {
  const auto options = resolve_params<RandomEqualizeOptions>(
      kRandomEqualizeParams, values, "transform random_equalize");
  check_images("random_equalize", before);
  const ImageOptions read("random_equalize");
  read.check_probability(options.p);
  return image_step_with(options.p, before, [](const at::Tensor& image, Draws&) {
    return functional::equalize(image);
  });
}

}  // namespace

extern constinit const TransformEntry random_equalize_entry{
    .name = "random_equalize",
    .help = "some samples with equally frequent values in each channel",
    .params = kRandomEqualizeParams,
    .make = &make_random_equalize,
};

}  // namespace muster::data
