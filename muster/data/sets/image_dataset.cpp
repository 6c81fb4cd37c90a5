#include "muster/data/sets/image_dataset.h"

#include <cmath>
#include <string>
#include <utility>

#include <ATen/ops/empty.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/batch_memory.h"
#include "muster/data/fingerprint.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/tensor/dtype_name.h"

namespace muster::data {
namespace {

void check(const DataSpec& spec, bool holds, std::string rule, std::string value) {
  if (holds) return;
  throw usage_error({.refused = concat("image dataset ", spec.name),
                     .rule = std::move(rule),
                     .value = std::move(value)});
}

void check_spec(const DataSpec& spec) {
  check(spec,
        spec.is_image(),
        "a sample is [channels, height, width]",
        concat(spec.sample_shape.size(), " dimensions"));
  const auto channels = static_cast<size_t>(spec.channels());
  check(spec, spec.dtype == at::kFloat, "batches are float32", tensor::dtype_name(spec.dtype));
  check(spec,
        spec.mean.size() == spec.standard_deviation.size() &&
            (spec.mean.empty() || spec.mean.size() == channels),
        "mean and standard deviation have a number per channel",
        concat(spec.mean.size(),
               " and ",
               spec.standard_deviation.size(),
               " for ",
               channels,
               " channels"));
  for (const double deviation : spec.standard_deviation) {
    check(spec, deviation > 0, "a standard deviation is positive", shortest(deviation));
    check(spec, std::isfinite(deviation), "a standard deviation is finite", shortest(deviation));
  }
  for (const double mean : spec.mean)  // else every pixel is NaN
    check(spec, std::isfinite(mean), "a mean is finite", shortest(mean));
}

void check_tensors(const DataSpec& spec, const at::Tensor& images, const at::Tensor& labels) {
  check(spec,
        images.defined() && images.device().is_cpu() && images.scalar_type() == at::kByte &&
            images.dim() == 4,
        "images are a CPU tensor [N, C, H, W] of bytes",
        images.defined() ? tensor::dtype_name(images.scalar_type()) : "no tensor");
  check(spec,
        images.sizes().slice(1) == at::IntArrayRef(spec.sample_shape),
        "images have the declared shape",
        concat(images.sizes().slice(1), " instead of ", at::IntArrayRef(spec.sample_shape)));
  const bool whole =
      labels.defined() && (labels.scalar_type() == at::kByte || labels.scalar_type() == at::kLong);
  check(spec,
        whole && labels.device().is_cpu() && labels.dim() == 1,
        "labels are a CPU tensor [N] of bytes or int64",
        labels.defined() ? tensor::dtype_name(labels.scalar_type()) : "no tensor");
  check(spec,
        images.size(0) == labels.size(0),
        "there are as many labels as images",
        concat(labels.size(0), " labels, ", images.size(0), " images"));
}

void check_labels(const DataSpec& spec, const at::Tensor& labels) {
  const int64_t* label = labels.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < labels.numel(); ++i) {
    if (label[i] >= 0 && label[i] < spec.classes) continue;
    check(spec,
          false,
          concat("labels run from 0 to ", spec.classes - 1),
          concat(label[i], " for sample ", i));
  }
}

/// What a batch is made from, as it is.
class ImageBytes final : public Dataset {
 public:
  ImageBytes(DataSpec spec, at::Tensor images, at::Tensor labels)
      : spec_(std::move(spec)),
        labels_(labels),
        tensors_({{"data", std::move(images)}, {"target", std::move(labels)}}, spec_.name) {
    spec_.dtype = at::kByte;
  }

  int64_t size() const override { return tensors_.size(); }
  DataSpec spec() const override { return spec_; }
  uint32_t fingerprint() const override { return tensors_.fingerprint(); }
  at::Tensor targets() const override { return labels_; }

 private:
  Batch load(std::span<const int64_t> indices, const SampleContext&) const override {
    return tensors_.get(indices);
  }

  DataSpec spec_;
  at::Tensor labels_;
  TensorDataset tensors_;
};

}  // namespace

ImageDataset::ImageDataset(DataSpec spec, at::Tensor images, at::Tensor labels)
    : spec_(std::move(spec)) {
  check_spec(spec_);
  check_tensors(spec_, images, labels);
  images_ = images.contiguous();
  labels_ = labels.to(at::kLong).contiguous();
  check_labels(spec_, labels_);
  table_.emplace(spec_.channels(), spec_.mean, spec_.standard_deviation);
}

std::shared_ptr<const Dataset> ImageDataset::before_normalising() const {
  return std::make_shared<ImageBytes>(spec_, images_, labels_);
}

int64_t ImageDataset::size() const { return images_.size(0); }

uint32_t ImageDataset::fingerprint() const {
  return fingerprint_of(labels_, fingerprint_of(images_));
}

Batch ImageDataset::load(std::span<const int64_t> indices, const SampleContext& context) const {
  const auto rows = static_cast<int64_t>(indices.size());
  const int64_t channels = spec_.channels();
  const int64_t plane = spec_.height() * spec_.width();
  Batch batch{.tensors = {{"data",
                           batch_tensor({rows, channels, spec_.height(), spec_.width()},
                                        at::kFloat,
                                        context.pinned)},
                          {"target", at::empty({rows}, context.options(at::kLong))}},
              .indices = {indices.begin(), indices.end()}};
  const uint8_t* images = images_.const_data_ptr<uint8_t>();
  const int64_t* labels = labels_.const_data_ptr<int64_t>();
  auto* pixels = batch["data"].mutable_data_ptr<float>();
  auto* target = batch["target"].mutable_data_ptr<int64_t>();
  for (const int64_t index : indices) {
    *target++ = labels[index];
    for (int64_t channel = 0; channel < channels; ++channel) {
      table_->look_up(channel, images + (index * channels + channel) * plane, plane, pixels);
      pixels += plane;
    }
  }
  return batch;
}

}  // namespace muster::data
