// torchvision's CenterCrop.
#include "muster/data/transform/placed_step.h"

namespace muster::data {
namespace {

struct CenterCropOptions {
  std::vector<int64_t> size;
};

constexpr Param kCenterCropParams[] = {
    param<&CenterCropOptions::size>("size", "of the cut-out: a number, or [height,width]"),
};

std::shared_ptr<const Transform> make_center_crop(const ParamValues& values,
                                                  const DataSpec& before) {
  const auto options =
      resolve_params<CenterCropOptions>(kCenterCropParams, values, "transform center_crop");
  check_images("center_crop", before);
  const image::Size size = ImageOptions("center_crop").size("size", options.size);
  return placed_step(
      std::nullopt,
      with_size(before, size.height, size.width),
      draw_nothing,
      [size](const at::Tensor& image, Nothing) {
        return functional::center_crop(image, size.height, size.width);
      },
      [size](Targets& targets, Nothing, const at::Tensor&) {
        targets.center_crop(size.height, size.width);
      });
}

}  // namespace

extern constinit const TransformEntry center_crop_entry{
    .name = "center_crop",
    .help = "a cut-out of the middle; smaller images get a border of 0",
    .params = kCenterCropParams,
    .make = &make_center_crop,
};

}  // namespace muster::data
