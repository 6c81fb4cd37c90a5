#include "muster/data/transforms/fit_images.h"

#include <utility>

#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/empty.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/transform/targets.h"
#include "muster/data/transform/transformed.h"

namespace muster::data {
namespace {

constexpr Param kFitImagesParams[] = {
    param<&FitImagesOptions::channels>("channels", "repeats the only one; 0: as they are"),
    param<&FitImagesOptions::height>("height", "in pixels; 0: as it is"),
    param<&FitImagesOptions::width>("width", "in pixels; 0: as it is"),
};

/// Mean and deviation come with a channel, so they are repeated with it.
DataSpec fitted_spec(DataSpec spec, std::vector<int64_t> shape) {
  const auto repeat = static_cast<size_t>(shape[0] / spec.channels());
  if (repeat > 1) {
    if (!spec.mean.empty()) spec.mean.assign(repeat, spec.mean[0]);
    if (!spec.standard_deviation.empty())
      spec.standard_deviation.assign(repeat, spec.standard_deviation[0]);
  }
  spec.sample_shape = std::move(shape);
  return spec;
}

/// images // [B, C, h, w]  ->  [B, C, height, width]
at::Tensor resized(const at::Tensor& images, int64_t height, int64_t width) {
  if (images.size(0) == 0) return at::empty({0, images.size(1), height, width}, images.options());
  return at::_upsample_bilinear2d_aa(images, {height, width}, /*align_corners=*/false);
}

class FitImages final : public Transform {
 public:
  explicit FitImages(DataSpec spec) : spec_(std::move(spec)) {}

  const DataSpec& spec() const override { return spec_; }
  void apply(Sample& sample, Rng&) const override { change(sample); }
  void apply(Sample& sample, Draws&) const override { change(sample); }
  bool apply(Batch& batch, const BatchRng&) const override {
    if (has_targets(batch.tensors)) return false;
    at::Tensor& images = batch["data"];
    images = fitted(images);
    return true;
  }

 private:
  void change(Sample& sample) const {
    at::Tensor& image = sample["data"];
    if (has_targets(sample.tensors)) {
      Targets targets(sample, {image.size(1), image.size(2)});
      targets.resize(spec_.height(), spec_.width(), functional::Interpolation::kBilinear);
    }
    image = fitted(image.unsqueeze(0)).squeeze(0);
  }
  at::Tensor fitted(at::Tensor images) const {
    if (images.size(2) != spec_.height() || images.size(3) != spec_.width())
      images = resized(images, spec_.height(), spec_.width());
    return images.expand({images.size(0), spec_.channels(), spec_.height(), spec_.width()})
        .contiguous();
  }

  DataSpec spec_;
};

std::shared_ptr<const Transform> fitted_to(int64_t channels,
                                           int64_t height,
                                           int64_t width,
                                           const DataSpec& before) {
  check_images("fit_images", before);
  const auto refuse_fit = [&](std::string rule, std::string value) {
    throw usage_error({.refused = concat("fit_images of ", before.name),
                       .rule = std::move(rule),
                       .value = std::move(value)});
  };
  if (channels < 1 || height < 1 || width < 1)
    refuse_fit("the new sizes are at least 1", concat(channels, " x ", height, " x ", width));
  if (channels != before.channels() && before.channels() != 1)
    refuse_fit("only one channel can be repeated", concat(before.channels(), " to ", channels));
  return std::make_shared<FitImages>(fitted_spec(before, {channels, height, width}));
}

std::shared_ptr<const Transform> make_fit_images_entry(const ParamValues& params,
                                                       const DataSpec& before) {
  return make_fit_images(
      resolve_params<FitImagesOptions>(kFitImagesParams, params, "transform fit_images"), before);
}

}  // namespace

std::shared_ptr<const Transform> make_fit_images(const FitImagesOptions& options,
                                                 const DataSpec& before) {
  check_images("fit_images", before);
  if (options.height == 0 || options.width == 0)
    check_one_size("fit_images without height and width", before);
  const auto or_own = [](int64_t asked, int64_t own) { return asked == 0 ? own : asked; };
  return fitted_to(or_own(options.channels, before.channels()),
                   or_own(options.height, before.height()),
                   or_own(options.width, before.width()),
                   before);
}

std::shared_ptr<const Dataset> fit_images(std::shared_ptr<const Dataset> dataset,
                                          int64_t channels,
                                          int64_t height,
                                          int64_t width) {
  const DataSpec spec = dataset->spec();
  if (spec.is_image() && spec.sample_shape == std::vector<int64_t>{channels, height, width})
    return dataset;
  return transformed(std::move(dataset), {[=](const DataSpec& before) {
                       return fitted_to(channels, height, width, before);
                     }});
}

extern constinit const TransformEntry fit_images_entry{
    .name = "fit_images",
    .help = "in another size (bilinear with antialiasing), or the only channel repeated",
    .params = kFitImagesParams,
    .make = &make_fit_images_entry,
};

}  // namespace muster::data
