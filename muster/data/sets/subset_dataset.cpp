#include "muster/data/sets/subset_dataset.h"

#include <utility>

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

uint32_t SubsetDataset::fingerprint() const {
  return formats::crc32_of(concat(from_, ' ', count_), whole_->fingerprint());
}

Batch SubsetDataset::load(std::span<const int64_t> indices, const SampleContext& context) const {
  std::vector<int64_t> shifted(indices.begin(), indices.end());
  for (int64_t& index : shifted) index += from_;
  Batch batch = whole_->get(shifted, context);
  batch.indices.assign(indices.begin(), indices.end());
  return batch;
}

}  // namespace muster::data
