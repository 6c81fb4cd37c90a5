// torchvision's RandomGrayscale.
#include "muster/data/functional/color.h"
#include "muster/data/transform/image_step.h"

namespace muster::data {
namespace {

struct RandomGrayscaleOptions {
  double p = 0.1;
};

constexpr Param kRandomGrayscaleParams[] = {
    param<&RandomGrayscaleOptions::p>("p", "how likely a sample loses its colours, 0 to 1"),
};

std::shared_ptr<const Transform> make_random_grayscale(const ParamValues& values,
                                                       const DataSpec& before) {
  const auto options = resolve_params<RandomGrayscaleOptions>(
      kRandomGrayscaleParams, values, "transform random_grayscale");
  check_images("random_grayscale", before);
  const ImageOptions read("random_grayscale");
  read.check_probability(options.p);
  read.check_colors(before);
  return image_step_with(options.p, before, [](const at::Tensor& image, Draws&) {
    return functional::grayscale(image, image.size(0));
  });
}

}  // namespace

extern constinit const TransformEntry random_grayscale_entry{
    .name = "random_grayscale",
    .help = "some samples without colours, in as many channels as before",
    .params = kRandomGrayscaleParams,
    .make = &make_random_grayscale,
};

}  // namespace muster::data
