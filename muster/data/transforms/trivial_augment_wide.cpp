// torchvision's TrivialAugmentWide (Mueller, Hutter 2021).
#include "muster/base/text.h"
#include "muster/data/transform/augment.h"
#include "muster/data/transform/image_step.h"

namespace muster::data {
namespace {

struct TrivialAugmentWideOptions {
  int64_t num_magnitude_bins = 31;
  std::string interpolation = "nearest";
  std::vector<double> fill;
};

constexpr Param kTrivialAugmentWideParams[] = {
    param<&TrivialAugmentWideOptions::num_magnitude_bins>("num_magnitude_bins", "of all strengths"),
    param<&TrivialAugmentWideOptions::interpolation>("interpolation", "nearest or bilinear"),
    param<&TrivialAugmentWideOptions::fill>("fill",
                                            "what is beyond: a number, or one per channel; none"),
};

constexpr AugmentSpace kWideSpace{.shear = 0.99,
                                  .translate = 32,
                                  .translate_in_pixels = true,
                                  .rotate = 135,
                                  .color = 0.99,
                                  .lost_bits = 6};

std::shared_ptr<const Transform> make_trivial_augment_wide(const ParamValues& values,
                                                           const DataSpec& before) {
  const auto options = resolve_params<TrivialAugmentWideOptions>(
      kTrivialAugmentWideParams, values, "transform trivial_augment_wide");
  check_images("trivial_augment_wide", before);
  const ImageOptions read("trivial_augment_wide");
  read.check_colors(before);
  const auto sampling = read.sampling(options.interpolation);
  read.check_fill(options.fill, before);
  const int64_t bins = options.num_magnitude_bins;
  if (bins < 2 || bins > 10000)
    read.refuse("num_magnitude_bins", "it is in 2 … 10000", concat(bins));
  return image_step_without_targets(
      "trivial_augment_wide",
      before,
      [bins, sampling, fill = options.fill](const at::Tensor& image, Draws& draws) {
        functional::check_image("trivial_augment_wide", image);
        const auto ops = augment_ops();
        const AugmentOp op =
            ops[static_cast<size_t>(draws.integer(0, static_cast<int64_t>(ops.size())))];
        const auto of = [&](int64_t index) {
          return magnitude_of(op, kWideSpace, bins, index, image.size(1), image.size(2));
        };
        double magnitude = 0;
        if (of(0)) {
          magnitude = *of(draws.integer(0, bins));
          if (is_signed(op) && draws.is_at_most(0.5)) magnitude = -magnitude;
        }
        return augmented(image, op, magnitude, sampling, fill_of(fill));
      });
}

}  // namespace

extern constinit const TransformEntry trivial_augment_wide_entry{
    .name = "trivial_augment_wide",
    .help = "one operation of fourteen, of any strength",
    .params = kTrivialAugmentWideParams,
    .make = &make_trivial_augment_wide,
};

}  // namespace muster::data
