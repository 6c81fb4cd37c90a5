// torchvision's RandomAutocontrast.
#include "muster/data/functional/color.h"
#include "muster/data/transform/image_step.h"

namespace muster::data {
namespace {

struct RandomAutocontrastOptions {
  double p = 0.5;
};

constexpr Param kRandomAutocontrastParams[] = {
    param<&RandomAutocontrastOptions::p>("p", "how likely a sample is changed, 0 to 1"),
};

std::shared_ptr<const Transform> make_random_autocontrast(const ParamValues& values,
                                                          const DataSpec& before) {
  const auto options = resolve_params<RandomAutocontrastOptions>(
      kRandomAutocontrastParams, values, "transform random_autocontrast");
  check_images("random_autocontrast", before);
  const ImageOptions read("random_autocontrast");
  read.check_probability(options.p);
  read.check_colors(before);
  return image_step_with(options.p, before, [](const at::Tensor& image, Draws&) {
    return functional::autocontrast(image);
  });
}

}  // namespace

extern constinit const TransformEntry random_autocontrast_entry{
    .name = "random_autocontrast",
    .help = "some samples with each channel stretched to its full range",
    .params = kRandomAutocontrastParams,
    .make = &make_random_autocontrast,
};

}  // namespace muster::data
