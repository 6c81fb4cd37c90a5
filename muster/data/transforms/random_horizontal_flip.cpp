// torchvision's RandomHorizontalFlip.
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/transform/transform.h"

namespace muster::data {
namespace {

struct RandomHorizontalFlipOptions {
  double p = 0.5;
};

constexpr Param kRandomHorizontalFlipParams[] = {
    param<&RandomHorizontalFlipOptions::p>("p", "how likely a sample is flipped, 0 to 1"),
};

class RandomHorizontalFlip final : public Transform {
 public:
  RandomHorizontalFlip(DataSpec spec, double p) : spec_(std::move(spec)), p_(p) {}

  const DataSpec& spec() const override { return spec_; }
  void apply(Sample& sample, Rng& rng) const override {
    if (rng.chance(p_)) sample["data"] = sample["data"].flip(-1);
  }
  bool apply(Batch& batch, const BatchRng& rng) const override {
    const at::Tensor before = batch["data"];
    at::Tensor images = before.clone();
    for (int64_t row = 0; row < batch.size(); ++row) {
      if (rng[row].chance(p_)) images.select(0, row).copy_(before.select(0, row).flip(-1));
    }
    batch["data"] = std::move(images);
    return true;
  }

 private:
  DataSpec spec_;
  double p_;
};

std::shared_ptr<const Transform> make_random_horizontal_flip(const ParamValues& params,
                                                             const DataSpec& before) {
  const auto options = resolve_params<RandomHorizontalFlipOptions>(
      kRandomHorizontalFlipParams, params, "transform random_horizontal_flip");
  if (options.p < 0 || options.p > 1) {
    throw usage_error({.refused = "transform random_horizontal_flip parameter \"p\"",
                       .rule = "it is in 0 … 1",
                       .value = shortest(options.p)});
  }
  check_images("random_horizontal_flip", before);
  return std::make_shared<RandomHorizontalFlip>(before, options.p);
}

}  // namespace

extern constinit const TransformEntry random_horizontal_flip_entry{
    .name = "random_horizontal_flip",
    .help = "left and right changed for some samples, anew in each epoch",
    .params = kRandomHorizontalFlipParams,
    .make = &make_random_horizontal_flip,
};

}  // namespace muster::data
