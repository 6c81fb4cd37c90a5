// torchvision's RandomCrop, with padding of one value.
#include <algorithm>
#include <utility>

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/transform/transform.h"

namespace muster::data {
namespace {

struct RandomCropOptions {
  int64_t size = 0;
  int64_t padding = 0;
  double fill = 0;
};

constexpr Param kRandomCropParams[] = {
    param<&RandomCropOptions::size>("size", "height and width of the cut-out; 0: the image's own"),
    param<&RandomCropOptions::padding>("padding", "pixels added on each side before"),
    param<&RandomCropOptions::fill>("fill", "what they are: 0 to 255 of bytes, which is black 0"),
};

class RandomCrop final : public Transform {
 public:
  RandomCrop(DataSpec spec, const RandomCropOptions& options)
      : spec_(std::move(spec)), options_(options) {}

  const DataSpec& spec() const override { return spec_; }
  void apply(Sample& sample, Rng& rng) const override {
    at::Tensor& image = sample["data"];
    image = cut(padded(image), rng).contiguous();
  }
  bool apply(Batch& batch, const BatchRng& rng) const override {
    at::Tensor& images = batch["data"];
    const at::Tensor whole = padded(images);
    at::Tensor cuts = at::empty({batch.size(), spec_.channels(), spec_.height(), spec_.width()},
                                images.options());
    for (int64_t row = 0; row < batch.size(); ++row) {
      Rng own = rng[row];
      cuts.select(0, row).copy_(cut(whole.select(0, row), own));
    }
    images = std::move(cuts);
    return true;
  }

 private:
  at::Tensor padded(const at::Tensor& images) const {
    const int64_t p = options_.padding;
    return p == 0 ? images : at::constant_pad_nd(images, {p, p, p, p}, options_.fill);
  }

  /// image // [C, h, w]. As torchvision, the row is drawn before the column.
  at::Tensor cut(const at::Tensor& image, Rng& rng) const {
    const int64_t height = spec_.height(), width = spec_.width();
    const int64_t top = rng.below(image.size(1) - height + 1);
    const int64_t left = rng.below(image.size(2) - width + 1);
    return image.narrow(1, top, height).narrow(2, left, width);
  }

  DataSpec spec_;  // behind it
  RandomCropOptions options_;
};

void check_random_crop(const RandomCropOptions& options, const DataSpec& before) {
  const auto refuse = [](const char* name, std::string rule, std::string value) {
    throw usage_error({.refused = concat("transform random_crop parameter \"", name, '"'),
                       .rule = std::move(rule),
                       .value = std::move(value)});
  };
  constexpr int64_t kMost = 1 << 15;
  if (options.padding < 0 || options.padding > kMost)
    refuse("padding", concat("it is in 0 … ", kMost), std::to_string(options.padding));
  if (before.dtype == at::kByte && (options.fill < 0 || options.fill > 255))
    refuse("fill", "a byte, 0 … 255", shortest(options.fill));
  const int64_t most = std::min(before.height(), before.width()) + 2 * options.padding;
  if (options.size < 0 || options.size > most)
    refuse("size",
           concat("at most the image with its padding, ", most, ", or 0"),
           std::to_string(options.size));
}

std::shared_ptr<const Transform> make_random_crop(const ParamValues& params,
                                                  const DataSpec& before) {
  const auto options =
      resolve_params<RandomCropOptions>(kRandomCropParams, params, "transform random_crop");
  check_images("random_crop", before);
  check_one_size("random_crop", before);
  check_random_crop(options, before);
  DataSpec spec = before;
  if (options.size > 0) spec.sample_shape = {before.channels(), options.size, options.size};
  return std::make_shared<RandomCrop>(std::move(spec), options);
}

}  // namespace

extern constinit const TransformEntry random_crop_entry{
    .name = "random_crop",
    .help = "a cut-out at another place in each epoch, of the image with pixels added around it",
    .params = kRandomCropParams,
    .make = &make_random_crop,
};

}  // namespace muster::data
