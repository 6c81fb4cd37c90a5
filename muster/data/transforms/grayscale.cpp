// torchvision's Grayscale.
#include "muster/base/text.h"
#include "muster/data/functional/color.h"
#include "muster/data/transform/image_step.h"

namespace muster::data {
namespace {

struct GrayscaleOptions {
  int64_t num_output_channels = 1;
};

constexpr Param kGrayscaleParams[] = {
    param<&GrayscaleOptions::num_output_channels>("num_output_channels", "1, or 3 that are equal"),
};

std::shared_ptr<const Transform> make_grayscale(const ParamValues& values, const DataSpec& before) {
  const auto options =
      resolve_params<GrayscaleOptions>(kGrayscaleParams, values, "transform grayscale");
  check_images("grayscale", before);
  const ImageOptions read("grayscale");
  read.check_colors(before);
  const int64_t channels = options.num_output_channels;
  if (channels != 1 && channels != 3)
    read.refuse("num_output_channels", "1 or 3", concat(channels));
  DataSpec spec = before;
  spec.sample_shape[0] = channels;
  // Mean and deviation come with a channel: one is repeated, of three the middle one, green, is kept.
  for (std::vector<double>* numbers : {&spec.mean, &spec.standard_deviation}) {
    if (!numbers->empty())
      numbers->assign(static_cast<size_t>(channels), (*numbers)[numbers->size() / 2]);
  }
  if (channels == before.channels()) {
    spec.mean = before.mean;
    spec.standard_deviation = before.standard_deviation;
  }
  return image_step(spec, [channels](const at::Tensor& image, Draws&) {
    return functional::grayscale(image, channels);
  });
}

}  // namespace

extern constinit const TransformEntry grayscale_entry{
    .name = "grayscale",
    .help = "without colours",
    .params = kGrayscaleParams,
    .make = &make_grayscale,
};

}  // namespace muster::data
