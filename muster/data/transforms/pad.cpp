// torchvision's Pad.
#include "muster/data/transform/placed_step.h"

namespace muster::data {
namespace {

struct PadOptions {
  std::vector<int64_t> padding;
  std::vector<double> fill{0};
  std::string padding_mode = "constant";
};

constexpr Param kPadParams[] = {
    param<&PadOptions::padding>("padding", "pixels: a number, [x,y], or [left,top,right,bottom]"),
    param<&PadOptions::fill>("fill", "what they are: a number, or one per channel"),
    param<&PadOptions::padding_mode>("padding_mode", "constant, edge, reflect or symmetric"),
};

std::shared_ptr<const Transform> make_pad(const ParamValues& values, const DataSpec& before) {
  const auto options = resolve_params<PadOptions>(kPadParams, values, "transform pad");
  check_images("pad", before);
  const ImageOptions read("pad");
  const functional::Padding padding = read.padding(options.padding);
  const image::Border border = read.border(options.padding_mode);
  read.check_fill(options.fill, before);
  if (options.fill.size() > 1 && border != image::Border::kConstant)
    read.refuse("fill", "one per channel goes with padding_mode=constant", options.padding_mode);
  const auto wider = [](int64_t side, int64_t by) { return side == 0 ? 0 : side + by; };
  return placed_step(
      std::nullopt,
      with_size(before,
                wider(before.height(), padding.top + padding.bottom),
                wider(before.width(), padding.left + padding.right)),
      draw_nothing,
      [padding, border, fill = options.fill](const at::Tensor& image, Nothing) {
        return functional::pad(image, padding, border, fill);
      },
      [padding, border](Targets& targets, Nothing, const at::Tensor&) {
        targets.pad(padding, border);
      });
}

}  // namespace

extern constinit const TransformEntry pad_entry{
    .name = "pad",
    .help = "with pixels around it",
    .params = kPadParams,
    .make = &make_pad,
};

}  // namespace muster::data
