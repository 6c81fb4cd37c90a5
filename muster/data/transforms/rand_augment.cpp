// torchvision's RandAugment (Cubuk et al. 2020).
#include "muster/base/text.h"
#include "muster/data/transform/augment.h"
#include "muster/data/transform/image_step.h"

namespace muster::data {
namespace {

struct RandAugmentOptions {
  int64_t num_ops = 2;
  int64_t magnitude = 9;
  int64_t num_magnitude_bins = 31;
  std::string interpolation = "nearest";
  std::vector<double> fill;
};

constexpr Param kRandAugmentParams[] = {
    param<&RandAugmentOptions::num_ops>("num_ops", "operations, one after the other"),
    param<&RandAugmentOptions::magnitude>("magnitude", "how strong, below num_magnitude_bins"),
    param<&RandAugmentOptions::num_magnitude_bins>("num_magnitude_bins", "of all strengths"),
    param<&RandAugmentOptions::interpolation>("interpolation", "nearest or bilinear"),
    param<&RandAugmentOptions::fill>("fill", "what is beyond: a number, or one per channel; none"),
};

std::shared_ptr<const Transform> make_rand_augment(const ParamValues& values,
                                                   const DataSpec& before) {
  const auto options =
      resolve_params<RandAugmentOptions>(kRandAugmentParams, values, "transform rand_augment");
  check_images("rand_augment", before);
  const ImageOptions read("rand_augment");
  read.check_colors(before);
  const auto sampling = read.sampling(options.interpolation);
  read.check_fill(options.fill, before);
  if (options.num_ops < 0 || options.num_ops > 1000)
    read.refuse("num_ops", "it is in 0 … 1000", concat(options.num_ops));
  if (options.num_magnitude_bins < 2 || options.num_magnitude_bins > 10000)
    read.refuse("num_magnitude_bins", "it is in 2 … 10000", concat(options.num_magnitude_bins));
  if (options.magnitude < 0 || options.magnitude >= options.num_magnitude_bins)
    read.refuse("magnitude",
                concat("it is in 0 … ", options.num_magnitude_bins - 1),
                concat(options.magnitude));
  return image_step_without_targets(
      "rand_augment", before, [options, sampling](at::Tensor image, Draws& draws) {
        functional::check_image("rand_augment", image);
        const auto ops = augment_ops();
        for (int64_t i = 0; i < options.num_ops; ++i) {
          const AugmentOp op =
              ops[static_cast<size_t>(draws.integer(0, static_cast<int64_t>(ops.size())))];
          double magnitude = magnitude_of(op,
                                          AugmentSpace{},
                                          options.num_magnitude_bins,
                                          options.magnitude,
                                          image.size(1),
                                          image.size(2))
                                 .value_or(0);
          if (is_signed(op) && draws.is_at_most(0.5)) magnitude = -magnitude;
          image = augmented(image, op, magnitude, sampling, fill_of(options.fill));
        }
        return image;
      });
}

}  // namespace

extern constinit const TransformEntry rand_augment_entry{
    .name = "rand_augment",
    .help = "a few operations of fourteen, of one strength",
    .params = kRandAugmentParams,
    .make = &make_rand_augment,
};

}  // namespace muster::data
