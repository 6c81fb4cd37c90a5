#include "muster/data/sets/image_dataset.h"

#include <algorithm>
#include <string>
#include <utility>

#include <ATen/ops/empty.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/fingerprint.h"

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
  check(spec, spec.dtype == at::kFloat, "batches are float32", c10::toString(spec.dtype));
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
  }
}

void check_tensors(const DataSpec& spec, const at::Tensor& images, const at::Tensor& labels) {
  check(spec,
        images.defined() && images.device().is_cpu() && images.scalar_type() == at::kByte &&
            images.dim() == 4,
        "images are a CPU tensor [N, C, H, W] of bytes",
        images.defined() ? images.toString() : "no tensor");
  check(spec,
        images.sizes().slice(1) == at::IntArrayRef(spec.sample_shape),
        "images have the declared shape",
        concat(images.sizes().slice(1), " instead of ", at::IntArrayRef(spec.sample_shape)));
  const bool whole =
      labels.defined() && (labels.scalar_type() == at::kByte || labels.scalar_type() == at::kLong);
  check(spec,
        whole && labels.device().is_cpu() && labels.dim() == 1,
        "labels are a CPU tensor [N] of bytes or int64",
        labels.defined() ? labels.toString() : "no tensor");
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

// The order and the roundings are torchvision's: functional.to_tensor divides by 255 and
// functional.normalize subtracts and divides in place, all in float32. Folding them to k*x+c would
// change the last bit of most values.
std::vector<float> make_table(const DataSpec& spec) {
  std::vector<float> table;
  for (size_t channel = 0; channel < static_cast<size_t>(spec.channels()); ++channel) {
    for (int byte = 0; byte < 256; ++byte) {
      float value = static_cast<float>(byte) / 255.0F;
      if (!spec.mean.empty()) {
        value -= static_cast<float>(spec.mean[channel]);
        value /= static_cast<float>(spec.standard_deviation[channel]);
      }
      table.push_back(value);
    }
  }
  return table;
}

void look_up(const float* table, const uint8_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = table[from[i]];
}

}  // namespace

ImageDataset::ImageDataset(DataSpec spec, at::Tensor images, at::Tensor labels)
    : spec_(std::move(spec)) {
  check_spec(spec_);
  check_tensors(spec_, images, labels);
  images_ = images.contiguous();
  labels_ = labels.to(at::kLong).contiguous();
  check_labels(spec_, labels_);
  table_ = make_table(spec_);
}

at::Tensor ImageDataset::normalise(const at::Tensor& pixels, int64_t repeat) const {
  const at::Tensor from = pixels.contiguous();
  const int64_t channels = spec_.channels(), plane = from.size(2) * from.size(3);
  at::Tensor floats =
      at::empty({from.size(0), repeat * channels, from.size(2), from.size(3)}, at::kFloat);
  const uint8_t* bytes = from.const_data_ptr<uint8_t>();
  auto* to = floats.mutable_data_ptr<float>();
  for (int64_t row = 0; row < from.size(0); ++row) {
    const float* first = to;
    for (int64_t channel = 0; channel < channels; ++channel, bytes += plane, to += plane)
      look_up(&table_[static_cast<size_t>(channel) * 256], bytes, plane, to);
    for (int64_t copy = 1; copy < repeat; ++copy) to = std::copy_n(first, channels * plane, to);
  }
  return floats;
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
                           at::empty({rows, channels, spec_.height(), spec_.width()},
                                     context.options(at::kFloat))},
                          {"target", at::empty({rows}, context.options(at::kLong))}},
              .indices = {indices.begin(), indices.end()}};
  const uint8_t* images = images_.const_data_ptr<uint8_t>();
  const int64_t* labels = labels_.const_data_ptr<int64_t>();
  auto* pixels = batch["data"].mutable_data_ptr<float>();
  auto* target = batch["target"].mutable_data_ptr<int64_t>();
  for (const int64_t index : indices) {
    *target++ = labels[index];
    for (int64_t channel = 0; channel < channels; ++channel) {
      look_up(&table_[static_cast<size_t>(channel) * 256],
              images + (index * channels + channel) * plane,
              plane,
              pixels);
      pixels += plane;
    }
  }
  return batch;
}

}  // namespace muster::data
