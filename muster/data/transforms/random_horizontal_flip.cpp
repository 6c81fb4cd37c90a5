// torchvision's RandomHorizontalFlip.
#include "muster/data/transform/placed_step.h"

namespace muster::data {
namespace {

struct RandomHorizontalFlipOptions {
  double p = 0.5;
};

constexpr Param kRandomHorizontalFlipParams[] = {
    param<&RandomHorizontalFlipOptions::p>("p", "how likely a sample is flipped, 0 to 1"),
};

std::shared_ptr<const Transform> make_random_horizontal_flip(const ParamValues& params,
                                                             const DataSpec& before) {
  const auto options = resolve_params<RandomHorizontalFlipOptions>(
      kRandomHorizontalFlipParams, params, "transform random_horizontal_flip");
  ImageOptions("random_horizontal_flip").check_probability(options.p);
  check_images("random_horizontal_flip", before);
  return placed_step(
      options.p,
      before,
      draw_nothing,
      [](const at::Tensor& image, Nothing) { return functional::horizontal_flip(image); },
      [](Targets& targets, Nothing, const at::Tensor&) { targets.horizontal_flip(); });
}

}  // namespace

extern constinit const TransformEntry random_horizontal_flip_entry{
    .name = "random_horizontal_flip",
    .help = "left and right changed for some samples, anew in each epoch",
    .params = kRandomHorizontalFlipParams,
    .make = &make_random_horizontal_flip,
};

}  // namespace muster::data
