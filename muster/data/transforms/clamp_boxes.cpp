// torchvision's ClampBoundingBoxes.
#include "muster/data/transform/placed_step.h"

namespace muster::data {
namespace {

std::shared_ptr<const Transform> make_clamp_boxes(const ParamValues& params,
                                                  const DataSpec& before) {
  check_param_names({}, params, "transform clamp_boxes");
  check_images("clamp_boxes", before);
  return placed_step(
      std::nullopt,
      before,
      draw_nothing,
      [](const at::Tensor& image, Nothing) { return image; },
      [](Targets& targets, Nothing, const at::Tensor&) { targets.clamp_boxes(); });
}

}  // namespace

extern constinit const TransformEntry clamp_boxes_entry{
    .name = "clamp_boxes",
    .help = "upright boxes end where the image does",
    .params = {},
    .make = &make_clamp_boxes,
};

}  // namespace muster::data
