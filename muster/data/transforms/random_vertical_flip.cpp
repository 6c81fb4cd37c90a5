// torchvision's RandomVerticalFlip.
#include "muster/data/transform/placed_step.h"

namespace muster::data {
namespace {

struct RandomVerticalFlipOptions {
  double p = 0.5;
};

constexpr Param kRandomVerticalFlipParams[] = {
    param<&RandomVerticalFlipOptions::p>("p", "how likely a sample is flipped, 0 to 1"),
};

std::shared_ptr<const Transform> make_random_vertical_flip(const ParamValues& params,
                                                           const DataSpec& before) {
  const auto options = resolve_params<RandomVerticalFlipOptions>(
      kRandomVerticalFlipParams, params, "transform random_vertical_flip");
  ImageOptions("random_vertical_flip").check_probability(options.p);
  check_images("random_vertical_flip", before);
  return placed_step(
      options.p,
      before,
      draw_nothing,
      [](const at::Tensor& image, Nothing) { return functional::vertical_flip(image); },
      [](Targets& targets, Nothing, const at::Tensor&) { targets.vertical_flip(); });
}

}  // namespace

extern constinit const TransformEntry random_vertical_flip_entry{
    .name = "random_vertical_flip",
    .help = "above and below changed for some samples, anew in each epoch",
    .params = kRandomVerticalFlipParams,
    .make = &make_random_vertical_flip,
};

}  // namespace muster::data
