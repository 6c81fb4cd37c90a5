// Boxes that are too small, or too little of which is left: torchvision's SanitizeBoundingBoxes behind
// ClampBoundingBoxes, with albumentations' min_visibility.
#include "muster/base/name_list.h"
#include "muster/data/transform/placed_step.h"

namespace muster::data {
namespace {

struct FilterBoxesOptions {
  double min_size = 1;
  double min_area = 1;
  double min_visibility = 0;
  std::string rows = "[labels]";
};

constexpr Param kFilterBoxesParams[] = {
    param<&FilterBoxesOptions::min_size>("min_size", "pixels, of width and height"),
    param<&FilterBoxesOptions::min_area>("min_area", "pixels, of the part inside the image"),
    param<&FilterBoxesOptions::min_visibility>("min_visibility",
                                               "that part of the whole box, 0 to 1"),
    param<&FilterBoxesOptions::rows>("rows", "tensors that have a row for each box: [labels,area]"),
};

std::vector<std::string> rows_in(const ImageOptions& read, const std::string& text) {
  if (text == "none") return {};
  std::vector<std::string> names = names_in(text);
  for (const std::string& name : names)
    if (name.empty()) read.refuse("rows", "[name,name], or none", text);
  return names;
}

std::shared_ptr<const Transform> make_filter_boxes(const ParamValues& params,
                                                   const DataSpec& before) {
  const auto options =
      resolve_params<FilterBoxesOptions>(kFilterBoxesParams, params, "transform filter_boxes");
  check_images("filter_boxes", before);
  const ImageOptions read("filter_boxes");
  constexpr double kMost = 1e9;
  read.check_in("min_size", options.min_size, 0, kMost);
  read.check_in("min_area", options.min_area, 0, kMost);
  read.check_in("min_visibility", options.min_visibility, 0, 1);
  const BoxFilter filter{.min_size = options.min_size,
                         .min_area = options.min_area,
                         .min_visibility = options.min_visibility,
                         .rows = rows_in(read, options.rows)};
  return placed_step(
      std::nullopt,
      before,
      draw_nothing,
      [](const at::Tensor& image, Nothing) { return image; },
      [filter](Targets& targets, Nothing, const at::Tensor&) { targets.filter_boxes(filter); });
}

}  // namespace

extern constinit const TransformEntry filter_boxes_entry{
    .name = "filter_boxes",
    .help = "boxes end where the image does, and go where too little is left; last of a chain",
    .params = kFilterBoxesParams,
    .make = &make_filter_boxes,
};

}  // namespace muster::data
