#include "muster/data/sets/subset_dataset.h"

#include <utility>

#include <ATen/ops/tensor.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/formats/crc32.h"

namespace muster::data {

SubsetDataset::SubsetDataset(std::shared_ptr<const Dataset> whole, int64_t from, int64_t count)
    : whole_(std::move(whole)), from_(from), count_(count) {
  if (from < 0 || count < 0 || from > whole_->size() || count > whole_->size() - from) {
    throw usage_error({.refused = "subset of a dataset",
                       .rule = concat("its samples are among 0 to ", whole_->size() - 1),
                       .value = concat(count, " samples from ", from)});
  }
}

SubsetDataset::SubsetDataset(std::shared_ptr<const Dataset> whole, std::vector<int64_t> indices)
    : whole_(std::move(whole)),
      count_(static_cast<int64_t>(indices.size())),
      indices_(std::move(indices)) {
  for (const int64_t index : indices_) {
    if (index >= 0 && index < whole_->size()) continue;
    throw usage_error({.refused = "subset of a dataset",
                       .rule = concat("its samples are among 0 to ", whole_->size() - 1),
                       .value = std::to_string(index)});
  }
}

uint32_t SubsetDataset::fingerprint() const {
  const uint32_t of_whole = whole_->fingerprint();
  if (indices_.empty()) return formats::crc32_of(concat(from_, ' ', count_), of_whole);
  const auto* bytes = reinterpret_cast<const char*>(indices_.data());
  return formats::crc32_of({bytes, indices_.size() * sizeof(int64_t)}, of_whole);
}

std::shared_ptr<const SubsetDataset> SubsetDataset::over(
    std::shared_ptr<const Dataset> other) const {
  if (indices_.empty()) return std::make_shared<SubsetDataset>(std::move(other), from_, count_);
  return std::make_shared<SubsetDataset>(std::move(other), indices_);
}

std::vector<int64_t> SubsetDataset::of_whole(std::span<const int64_t> indices) const {
  std::vector<int64_t> wanted(indices.begin(), indices.end());
  for (int64_t& index : wanted)
    index = indices_.empty() ? index + from_ : indices_[static_cast<size_t>(index)];
  return wanted;
}

Batch SubsetDataset::load(std::span<const int64_t> indices, const SampleContext& context) const {
  Batch batch = whole_->get(of_whole(indices), context);
  batch.indices.assign(indices.begin(), indices.end());
  return batch;
}

std::vector<Sample> SubsetDataset::load_samples(std::span<const int64_t> indices,
                                                const SampleContext& context) const {
  std::vector<Sample> samples = whole_->samples(of_whole(indices), context);
  for (size_t i = 0; i < samples.size(); ++i) samples[i].index = indices[i];
  return samples;
}

Sample SubsetDataset::read_part(int64_t index, const formats::ChooseRegion& choose) const {
  Sample sample = whole_->image_parts()->read_part(of_whole({&index, 1})[0], choose);
  sample.index = index;
  return sample;
}

Batch SubsetDataset::collate(const std::vector<Sample>& samples) const {
  return whole_->collate(samples);
}

at::Tensor SubsetDataset::targets() const {
  const at::Tensor all = whole_->targets();
  if (!all.defined()) return all;
  return indices_.empty() ? all.narrow(0, from_, count_)
                          : all.index_select(0, at::tensor(indices_, at::kLong));
}

std::shared_ptr<const Dataset> SubsetDataset::before_normalising() const {
  const auto pixels = whole_->before_normalising();
  return pixels ? over(pixels) : nullptr;
}

}  // namespace muster::data
