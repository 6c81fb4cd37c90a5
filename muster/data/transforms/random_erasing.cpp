// torchvision's RandomErasing.
#include "muster/base/text.h"
#include "muster/data/transform/draw_params.h"
#include "muster/data/transform/image_step.h"

namespace muster::data {
namespace {

struct RandomErasingOptions {
  double p = 0.5;
  std::vector<double> scale{0.02, 0.33};
  std::vector<double> ratio{0.3, 3.3};
  std::vector<double> value{0};
};

constexpr Param kRandomErasingParams[] = {
    param<&RandomErasingOptions::p>("p", "how likely a sample loses a part, 0 to 1"),
    param<&RandomErasingOptions::scale>("scale", "of the image's area, least and most"),
    param<&RandomErasingOptions::ratio>("ratio", "of height to width, least and most"),
    param<&RandomErasingOptions::value>(
        "value", "what stands there: a number, one per channel; none: noise"),
};

std::shared_ptr<const Transform> make_random_erasing(const ParamValues& values,
                                                     const DataSpec& before) {
  const auto options = resolve_params<RandomErasingOptions>(
      kRandomErasingParams, values, "transform random_erasing");
  check_images("random_erasing", before);
  const ImageOptions read("random_erasing");
  read.check_probability(options.p);
  read.check_range("scale", options.scale, 0, 1);
  read.check_range("ratio", options.ratio, 1e-3, 1e3);
  read.check_fill(options.value, before, "value");
  if (options.value.empty() && before.dtype == at::kByte)
    read.refuse("value", "noise is for floats: behind to_dtype or normalize", "none");
  const ErasingOptions how{.scale = {options.scale[0], options.scale[1]},
                           .ratio = {options.ratio[0], options.ratio[1]},
                           .value = options.value};
  return image_step_with(options.p, before, [how](const at::Tensor& image, Draws& draws) {
    functional::check_image("random_erasing", image);
    const auto drawn = draw_erasing(image.size(0), {image.size(1), image.size(2)}, how, draws);
    if (!drawn) return image;
    const Box& box = drawn->box;
    return functional::erase(image, box.top, box.left, box.height, box.width, drawn->values);
  });
}

}  // namespace

extern constinit const TransformEntry random_erasing_entry{
    .name = "random_erasing",
    .help = "some samples lose a rectangle",
    .params = kRandomErasingParams,
    .make = &make_random_erasing,
};

}  // namespace muster::data
