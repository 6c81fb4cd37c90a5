// torchvision's GaussianBlur.
#include "muster/base/text.h"
#include "muster/data/functional/color.h"
#include "muster/data/transform/draw_params.h"
#include "muster/data/transform/image_step.h"

namespace muster::data {
namespace {

struct GaussianBlurOptions {
  std::vector<int64_t> kernel_size;
  std::vector<double> sigma{0.1, 2};
};

constexpr Param kGaussianBlurParams[] = {
    param<&GaussianBlurOptions::kernel_size>("kernel_size",
                                             "odd pixels: a number, or [width,height]"),
    param<&GaussianBlurOptions::sigma>("sigma", "in pixels: a number, or [least,most]"),
};

std::shared_ptr<const Transform> make_gaussian_blur(const ParamValues& values,
                                                    const DataSpec& before) {
  auto options =
      resolve_params<GaussianBlurOptions>(kGaussianBlurParams, values, "transform gaussian_blur");
  check_images("gaussian_blur", before);
  const ImageOptions read("gaussian_blur");
  const image::Size kernel = read.size("kernel_size", options.kernel_size);
  for (const int64_t side : options.kernel_size) {
    if (side % 2 == 0) read.refuse("kernel_size", "each side is odd", concat(side));
  }
  if (options.sigma.size() == 1) options.sigma.push_back(options.sigma[0]);
  read.check_range("sigma", options.sigma, 1e-3, 1e3);
  const Range sigma{options.sigma[0], options.sigma[1]};
  // torchvision's first number is the width's.
  return image_step(before, [kernel, sigma](const at::Tensor& image, Draws& draws) {
    const double drawn = draws.uniform(sigma[0], sigma[1]);
    return functional::gaussian_blur(image, kernel.width, kernel.height, drawn);
  });
}

}  // namespace

extern constinit const TransformEntry gaussian_blur_entry{
    .name = "gaussian_blur",
    .help = "blurred by another amount in each epoch",
    .params = kGaussianBlurParams,
    .make = &make_gaussian_blur,
};

}  // namespace muster::data
