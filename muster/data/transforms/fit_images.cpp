#include "muster/data/transforms/fit_images.h"

#include <cstring>
#include <utility>

#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/empty.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/sets/image_dataset.h"
#include "muster/data/sets/subset_dataset.h"

namespace muster::data {
namespace {

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

/// Bytes resized, then normalised.
class ResizedBytes final : public Dataset {
 public:
  ResizedBytes(std::shared_ptr<const ImageDataset> source, std::vector<int64_t> shape)
      : source_(std::move(source)), spec_(fitted_spec(source_->spec(), std::move(shape))) {}

  int64_t size() const override { return source_->size(); }
  DataSpec spec() const override { return spec_; }
  uint32_t fingerprint() const override { return source_->fingerprint(); }

 private:
  Batch load(std::span<const int64_t> indices, const SampleContext&) const override {
    const at::Tensor& images = source_->images();
    const auto rows = static_cast<int64_t>(indices.size());
    const int64_t sample = images.size(1) * images.size(2) * images.size(3);
    at::Tensor pixels =
        at::empty({rows, images.size(1), images.size(2), images.size(3)}, at::kByte);
    Batch batch{.tensors = {{"data", {}}, {"target", at::empty({rows}, at::kLong)}},
                .indices = {indices.begin(), indices.end()}};
    const uint8_t* from = images.const_data_ptr<uint8_t>();
    const int64_t* labels = source_->labels().const_data_ptr<int64_t>();
    auto* to = pixels.mutable_data_ptr<uint8_t>();
    auto* target = batch["target"].mutable_data_ptr<int64_t>();
    for (const int64_t index : indices) {
      std::memcpy(to, from + index * sample, static_cast<size_t>(sample));
      to += sample;
      *target++ = labels[index];
    }
    batch["data"] = source_->normalise(resized(pixels, spec_.height(), spec_.width()),
                                       spec_.channels() / images.size(1));
    return batch;
  }

  std::shared_ptr<const ImageDataset> source_;
  DataSpec spec_;
};

/// Batches of any other dataset, changed after they were made.
class FittedBatches final : public Dataset {
 public:
  FittedBatches(std::shared_ptr<const Dataset> source, std::vector<int64_t> shape)
      : source_(std::move(source)), spec_(fitted_spec(source_->spec(), std::move(shape))) {}

  int64_t size() const override { return source_->size(); }
  DataSpec spec() const override { return spec_; }
  uint32_t fingerprint() const override { return source_->fingerprint(); }

 private:
  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override {
    Batch batch = source_->get(indices, context);
    at::Tensor& images = batch["data"];
    if (images.size(2) != spec_.height() || images.size(3) != spec_.width())
      images = resized(images, spec_.height(), spec_.width());
    images =
        images.expand({batch.size(), spec_.channels(), spec_.height(), spec_.width()}).contiguous();
    return batch;
  }

  std::shared_ptr<const Dataset> source_;
  DataSpec spec_;
};

void check(const DataSpec& spec, int64_t channels, int64_t height, int64_t width) {
  const auto refuse_fit = [&](std::string rule, std::string value) {
    throw usage_error({.refused = concat("fitting the images of ", spec.name),
                       .rule = std::move(rule),
                       .value = std::move(value)});
  };
  if (!spec.is_image()) {
    refuse_fit("a sample is [channels, height, width]",
               concat(spec.sample_shape.size(), " dimensions"));
  }
  if (spec.dtype != at::kFloat && spec.dtype != at::kDouble && spec.dtype != at::kByte)
    refuse_fit("pixels are float32, float64 or uint8", c10::toString(spec.dtype));
  if (channels < 1 || height < 1 || width < 1)
    refuse_fit("the new sizes are at least 1", concat(channels, " x ", height, " x ", width));
  if (channels != spec.channels() && spec.channels() != 1)
    refuse_fit("only one channel can be repeated", concat(spec.channels(), " to ", channels));
}

}  // namespace

std::shared_ptr<const Dataset> fit_images(std::shared_ptr<const Dataset> dataset,
                                          int64_t channels,
                                          int64_t height,
                                          int64_t width) {
  const DataSpec spec = dataset->spec();
  check(spec, channels, height, width);
  std::vector<int64_t> shape{channels, height, width};
  if (spec.sample_shape == shape) return dataset;
  if (const auto* subset = dynamic_cast<const SubsetDataset*>(dataset.get())) {
    return subset->over(fit_images(subset->whole(), channels, height, width));
  }
  const bool resizes = height != spec.height() || width != spec.width();
  if (auto bytes = std::dynamic_pointer_cast<const ImageDataset>(dataset); bytes && resizes)
    return std::make_shared<ResizedBytes>(std::move(bytes), std::move(shape));
  return std::make_shared<FittedBatches>(std::move(dataset), std::move(shape));
}

}  // namespace muster::data
