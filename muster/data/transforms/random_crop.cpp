// torchvision's RandomCrop.
#include <algorithm>
#include <utility>

#include "muster/base/text.h"
#include "muster/data/transform/draw_params.h"
#include "muster/data/transform/placed_step.h"

namespace muster::data {
namespace {

struct RandomCropOptions {
  std::vector<int64_t> size;
  std::vector<int64_t> padding;
  bool pad_if_needed = false;
  std::vector<double> fill{0};
  std::string padding_mode = "constant";
};

constexpr Param kRandomCropParams[] = {
    param<&RandomCropOptions::size>("size", "of the cut-out, or [height,width]; none: the image's"),
    param<&RandomCropOptions::padding>(
        "padding", "pixels added before: a number, [x,y], [left,top,right,bottom]"),
    param<&RandomCropOptions::pad_if_needed>("pad_if_needed", "more of them for what is too small"),
    param<&RandomCropOptions::fill>("fill", "what they are: 0 to 255 of bytes, which is black 0"),
    param<&RandomCropOptions::padding_mode>("padding_mode", "constant, edge, reflect or symmetric"),
};

/// Of an image whose size is known already; one side may be.
void check_crop_fits(const ImageOptions& read,
                     const image::Size& size,
                     const functional::Padding& padding,
                     const DataSpec& before) {
  const auto check_side = [&](int64_t side, int64_t added, int64_t wanted) {
    if (side > 0 && wanted > side + added)
      read.refuse("size",
                  concat("at most the image with its padding, ", side + added, ", or none"),
                  concat(wanted));
  };
  check_side(before.height(), padding.top + padding.bottom, size.height);
  check_side(before.width(), padding.left + padding.right, size.width);
}

std::shared_ptr<const Transform> make_random_crop(const ParamValues& values,
                                                  const DataSpec& before) {
  const auto options =
      resolve_params<RandomCropOptions>(kRandomCropParams, values, "transform random_crop");
  check_images("random_crop", before);
  const ImageOptions read("random_crop");
  const functional::Padding padding = read.padding(options.padding);
  const image::Border border = read.border(options.padding_mode);
  read.check_fill(options.fill, before);
  const bool own = options.size.empty() || options.size == std::vector<int64_t>{0};
  const image::Size size = own ? image::Size{0, 0} : read.size("size", options.size);
  if (!own && !options.pad_if_needed) check_crop_fits(read, size, padding, before);
  return placed_step(
      std::nullopt,
      own ? before : with_size(before, size.height, size.width),
      [=, if_needed = options.pad_if_needed](const at::Tensor& image, Draws& draws) {
        functional::check_image("random_crop", image);
        const image::Size whole = size_of(image);
        return draw_padded_crop(whole, own ? whole : size, padding, if_needed, draws);
      },
      [border, fill = options.fill](const at::Tensor& image, const PaddedCrop& drawn) {
        const auto& [added, box] = drawn;
        return functional::crop_of_padded(
            image, added, border, fill, box.top, box.left, box.height, box.width);
      },
      [border](Targets& targets, const PaddedCrop& drawn, const at::Tensor&) {
        const auto& [added, box] = drawn;
        if (added.any()) targets.pad(added, border);
        targets.crop(box.top, box.left, box.height, box.width);
      });
}

}  // namespace

extern constinit const TransformEntry random_crop_entry{
    .name = "random_crop",
    .help = "a cut-out at another place in each epoch, of the image with pixels added around it",
    .params = kRandomCropParams,
    .make = &make_random_crop,
};

}  // namespace muster::data
