// torchvision's RandomRotation.
#include "muster/data/functional/warp.h"
#include "muster/data/transform/placed_step.h"

namespace muster::data {
namespace {

struct RandomRotationOptions {
  std::vector<double> degrees;
  std::string interpolation = "nearest";
  bool expand = false;
  std::vector<double> center;
  std::vector<double> fill{0};
};

constexpr Param kRandomRotationParams[] = {
    param<&RandomRotationOptions::degrees>("degrees", "x: -x to x, anticlockwise; or [least,most]"),
    param<&RandomRotationOptions::interpolation>("interpolation", "nearest or bilinear"),
    param<&RandomRotationOptions::expand>("expand",
                                          "as large as the turned image; sizes differ then"),
    param<&RandomRotationOptions::center>("center", "[x,y] in pixels; none: the middle"),
    param<&RandomRotationOptions::fill>("fill",
                                        "what is beyond: a number, or one per channel; none"),
};

std::shared_ptr<const Transform> make_random_rotation(const ParamValues& values,
                                                      const DataSpec& before) {
  const auto options = resolve_params<RandomRotationOptions>(
      kRandomRotationParams, values, "transform random_rotation");
  check_images("random_rotation", before);
  const ImageOptions read("random_rotation");
  const auto range = read.around_zero("degrees", options.degrees);
  const auto sampling = read.sampling(options.interpolation);
  const auto center = read.center(options.center);
  read.check_fill(options.fill, before);
  const DataSpec spec = options.expand ? with_size(before, 0, 0) : before;
  return placed_step(
      std::nullopt,
      spec,
      [=, expand = options.expand](const at::Tensor&, Draws& draws) {
        const double angle = draws.uniform(range[0], range[1]);
        return functional::Rotation{.angle = angle, .expand = expand, .center = center};
      },
      [sampling, fill = options.fill](const at::Tensor& image, const functional::Rotation& drawn) {
        return functional::rotate(image, drawn, sampling, fill_of(fill));
      },
      [](Targets& targets, const functional::Rotation& drawn, const at::Tensor& image) {
        targets.rotate(drawn, size_of(image));
      });
}

}  // namespace

extern constinit const TransformEntry random_rotation_entry{
    .name = "random_rotation",
    .help = "turned by another angle in each epoch",
    .params = kRandomRotationParams,
    .make = &make_random_rotation,
};

}  // namespace muster::data
