// torchvision's AutoAugment (Cubuk et al. 2019).
#include "muster/data/transform/augment.h"
#include "muster/data/transform/image_step.h"

namespace muster::data {
namespace {

struct AutoAugmentOptions {
  std::string policy = "imagenet";
  std::string interpolation = "nearest";
  std::vector<double> fill;
};

constexpr Param kAutoAugmentParams[] = {
    param<&AutoAugmentOptions::policy>("policy", "imagenet, cifar10 or svhn"),
    param<&AutoAugmentOptions::interpolation>("interpolation", "nearest or bilinear"),
    param<&AutoAugmentOptions::fill>("fill", "what is beyond: a number, or one per channel; none"),
};

constexpr int64_t kPolicyBins = 10;

at::Tensor after_step(const at::Tensor& image,
                      const PolicyStep& step,
                      functional::Interpolation sampling,
                      const functional::Fill& fill,
                      Draws& draws) {
  if (!draws.is_at_most(step.probability)) return image;
  double magnitude =
      magnitude_of(
          step.op, AugmentSpace{}, kPolicyBins, step.magnitude, image.size(1), image.size(2))
          .value_or(0);
  if (is_signed(step.op) && draws.is_at_most(0.5)) magnitude = -magnitude;
  return augmented(image, step.op, magnitude, sampling, fill);
}

std::shared_ptr<const Transform> make_auto_augment(const ParamValues& values,
                                                   const DataSpec& before) {
  const auto options =
      resolve_params<AutoAugmentOptions>(kAutoAugmentParams, values, "transform auto_augment");
  check_images("auto_augment", before);
  const ImageOptions read("auto_augment");
  read.check_colors(before);
  const auto sampling = read.sampling(options.interpolation);
  read.check_fill(options.fill, before);
  const auto policies = augment_policies(options.policy);
  if (policies.empty())
    read.refuse("policy", "imagenet, cifar10 or svhn", '"' + options.policy + '"');
  return image_step_without_targets(
      "auto_augment",
      before,
      [policies, sampling, fill = options.fill](const at::Tensor& image, Draws& draws) {
        functional::check_image("auto_augment", image);
        const Policy& policy =
            policies[static_cast<size_t>(draws.integer(0, static_cast<int64_t>(policies.size())))];
        const at::Tensor once = after_step(image, policy.first, sampling, fill_of(fill), draws);
        return after_step(once, policy.second, sampling, fill_of(fill), draws);
      });
}

}  // namespace

extern constinit const TransformEntry auto_augment_entry{
    .name = "auto_augment",
    .help = "two operations that were found to go well together",
    .params = kAutoAugmentParams,
    .make = &make_auto_augment,
};

}  // namespace muster::data
