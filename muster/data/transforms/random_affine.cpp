// torchvision's RandomAffine.
#include "muster/base/text.h"
#include "muster/data/transform/draw_params.h"
#include "muster/data/transform/placed_step.h"

namespace muster::data {
namespace {

struct RandomAffineOptions {
  std::vector<double> degrees;
  std::vector<double> translate;
  std::vector<double> scale;
  std::vector<double> shear;
  std::string interpolation = "nearest";
  std::vector<double> fill{0};
  std::vector<double> center;
};

constexpr Param kRandomAffineParams[] = {
    param<&RandomAffineOptions::degrees>("degrees", "x: -x to x, clockwise; or [least,most]"),
    param<&RandomAffineOptions::translate>("translate", "[x,y], parts of width and height; none"),
    param<&RandomAffineOptions::scale>("scale", "[least,most]; none"),
    param<&RandomAffineOptions::shear>("shear",
                                       "degrees: x: -x to x; [least,most]; both axes' four"),
    param<&RandomAffineOptions::interpolation>("interpolation", "nearest or bilinear"),
    param<&RandomAffineOptions::fill>("fill", "what is beyond: a number, or one per channel; none"),
    param<&RandomAffineOptions::center>("center", "[x,y] in pixels; none: the middle"),
};

AffineRanges read_affine(const ImageOptions& read, const RandomAffineOptions& options) {
  AffineRanges ranges{.degrees = read.around_zero("degrees", options.degrees)};
  if (!options.translate.empty()) {
    if (options.translate.size() != 2)
      read.refuse("translate", "[x,y], or none", concat(options.translate.size(), " numbers"));
    for (const double part : options.translate) read.check_in("translate", part, 0, 1);
    ranges.translate = functional::Point{options.translate[0], options.translate[1]};
  }
  if (!options.scale.empty()) {
    read.check_range("scale", options.scale, 1e-3, 1e3);
    ranges.scale = Range{options.scale[0], options.scale[1]};
  }
  ranges.shear = options.shear;
  if (options.shear.size() == 4) {
    read.check_range("shear", {options.shear[0], options.shear[1]}, -89, 89);
    read.check_range("shear", {options.shear[2], options.shear[3]}, -89, 89);
  } else if (!options.shear.empty()) {
    const Range range = read.around_zero("shear", options.shear);
    read.check_range("shear", {range[0], range[1]}, -89, 89);
    ranges.shear = {range[0], range[1]};
  }
  return ranges;
}

std::shared_ptr<const Transform> make_random_affine(const ParamValues& values,
                                                    const DataSpec& before) {
  const auto options =
      resolve_params<RandomAffineOptions>(kRandomAffineParams, values, "transform random_affine");
  check_images("random_affine", before);
  const ImageOptions read("random_affine");
  const AffineRanges ranges = read_affine(read, options);
  const auto sampling = read.sampling(options.interpolation);
  const auto center = read.center(options.center);
  read.check_fill(options.fill, before);
  return placed_step(
      std::nullopt,
      before,
      [ranges, center](const at::Tensor& image, Draws& draws) {
        functional::check_image("random_affine", image);
        functional::Affine drawn = draw_affine(size_of(image), ranges, draws);
        drawn.center = center;
        return drawn;
      },
      [sampling, fill = options.fill](const at::Tensor& image, const functional::Affine& drawn) {
        return functional::affine(image, drawn, sampling, fill_of(fill));
      },
      [](Targets& targets, const functional::Affine& drawn, const at::Tensor&) {
        targets.affine(drawn);
      });
}

}  // namespace

extern constinit const TransformEntry random_affine_entry{
    .name = "random_affine",
    .help = "turned, moved, scaled and sheared by other amounts in each epoch",
    .params = kRandomAffineParams,
    .make = &make_random_affine,
};

}  // namespace muster::data
