// torchvision's RandomPerspective.
#include "muster/data/transform/draw_params.h"
#include "muster/data/transform/placed_step.h"

namespace muster::data {
namespace {

struct RandomPerspectiveOptions {
  double distortion_scale = 0.5;
  double p = 0.5;
  std::string interpolation = "bilinear";
  std::vector<double> fill{0};
};

constexpr Param kRandomPerspectiveParams[] = {
    param<&RandomPerspectiveOptions::distortion_scale>("distortion_scale",
                                                       "how far corners move inwards, 0 to 1"),
    param<&RandomPerspectiveOptions::p>("p", "how likely a sample is changed, 0 to 1"),
    param<&RandomPerspectiveOptions::interpolation>("interpolation", "nearest or bilinear"),
    param<&RandomPerspectiveOptions::fill>("fill", "what is beyond: a number, or one per channel"),
};

std::shared_ptr<const Transform> make_random_perspective(const ParamValues& values,
                                                         const DataSpec& before) {
  const auto options = resolve_params<RandomPerspectiveOptions>(
      kRandomPerspectiveParams, values, "transform random_perspective");
  check_images("random_perspective", before);
  const ImageOptions read("random_perspective");
  read.check_probability(options.p);
  read.check_in("distortion_scale", options.distortion_scale, 0, 1);
  const auto sampling = read.sampling(options.interpolation);
  read.check_fill(options.fill, before);
  using Drawn = functional::PerspectiveCoefficients;
  return placed_step(
      options.p,
      before,
      [distortion = options.distortion_scale](const at::Tensor& image, Draws& draws) {
        functional::check_image("random_perspective", image);
        return draw_perspective(size_of(image), distortion, draws);
      },
      [sampling, fill = options.fill](const at::Tensor& image, const Drawn& drawn) {
        return functional::perspective(image, drawn, sampling, fill_of(fill));
      },
      [](Targets& targets, const Drawn& drawn, const at::Tensor&) { targets.perspective(drawn); });
}

}  // namespace

extern constinit const TransformEntry random_perspective_entry{
    .name = "random_perspective",
    .help = "some samples seen from another side",
    .params = kRandomPerspectiveParams,
    .make = &make_random_perspective,
};

}  // namespace muster::data
