// torchvision's RandomResizedCrop.
#include <limits>

#include "muster/data/transform/cut_step.h"
#include "muster/data/transform/draw_params.h"

namespace muster::data {
namespace {

struct RandomResizedCropOptions {
  std::vector<int64_t> size;
  std::vector<double> scale{0.08, 1};
  std::vector<double> ratio{3.0 / 4.0, 4.0 / 3.0};
  std::string interpolation = "bilinear";
  bool antialias = true;
  std::string reference = "tensor";
};

constexpr Param kRandomResizedCropParams[] = {
    param<&RandomResizedCropOptions::size>("size", "in the end: a number, or [height,width]"),
    param<&RandomResizedCropOptions::scale>("scale", "of the image's area, least and most"),
    param<&RandomResizedCropOptions::ratio>("ratio", "of width to height, least and most"),
    param<&RandomResizedCropOptions::interpolation>("interpolation",
                                                    "nearest, bilinear, bicubic, lanczos …"),
    param<&RandomResizedCropOptions::antialias>("antialias", "smooths what shrinks"),
    param<&RandomResizedCropOptions::reference>("reference",
                                                "whose bytes: tensor, or pillow (of PIL images)"),
};

std::shared_ptr<const Transform> make_random_resized_crop(const ParamValues& values,
                                                          const DataSpec& before) {
  const auto options = resolve_params<RandomResizedCropOptions>(
      kRandomResizedCropParams, values, "transform random_resized_crop");
  check_images("random_resized_crop", before);
  const ImageOptions read("random_resized_crop");
  const image::Size size = read.size("size", options.size);
  const auto how = read.resize(options.interpolation, options.antialias, options.reference);
  read.check_range("scale", options.scale, 0, 1);
  read.check_range("ratio", options.ratio, 1e-3, 1e3);
  const Range scale{options.scale[0], options.scale[1]};
  const Range ratio{options.ratio[0], options.ratio[1]};
  return cut_step(with_size(before, size.height, size.width),
                  {.draw =
                       [scale, ratio](const image::Size& whole, Draws& draws) {
                         return draw_resized_crop(whole, scale, ratio, draws);
                       },
                   .epilogue =
                       [size, how](const at::Tensor& part) {
                         functional::check_image("random_resized_crop", part);
                         const at::Tensor resized =
                             functional::resize(part, size.height, size.width, how);
                         return resized.is_same(part) ? part.contiguous() : resized;
                       }},
                  [size, how](Targets& targets, const Box& box) {
                    targets.crop(box.top, box.left, box.height, box.width);
                    targets.resize(size.height, size.width, how.interpolation);
                  });
}

}  // namespace

extern constinit const TransformEntry random_resized_crop_entry{
    .name = "random_resized_crop",
    .help = "a cut-out of another place, size and shape in each epoch, in one size in the end",
    .params = kRandomResizedCropParams,
    .make = &make_random_resized_crop,
};

}  // namespace muster::data
