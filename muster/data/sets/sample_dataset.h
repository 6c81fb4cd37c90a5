// A dataset whose samples are made one by one, and may differ in size.
#pragma once

#include <vector>

#include "muster/data/collate.h"
#include "muster/data/dataset.h"

namespace muster::data {

/// Derive, say what sample i is, and how samples become a batch:
///
///     class Sentences final : public muster::data::SampleDataset {
///      public:
///       Sentences() : SampleDataset(Collate({{.tensor = "tokens", .how = CollateRule::How::kPad}})) {}
///       …
///      private:
///       Sample sample(int64_t index, const SampleContext&) const override {
///         return {.tensors = {{"tokens", sentences_[index]}}};
///       }
///     };
class SampleDataset : public Dataset {
 public:
  bool is_by_sample() const final { return true; }
  Batch collate(const std::vector<Sample>& samples) const final { return collate_(samples); }

 protected:
  explicit SampleDataset(Collate collate = {}) : collate_(std::move(collate)) {}

 private:
  /// The index is in range; it is put into the sample by the caller. Any thread.
  virtual Sample sample(int64_t index, const SampleContext& context) const = 0;

  Batch load(std::span<const int64_t> indices, const SampleContext& context) const final {
    return collate_(load_samples(indices, context));
  }
  std::vector<Sample> load_samples(std::span<const int64_t> indices,
                                   const SampleContext& context) const final;

  Collate collate_;
};

}  // namespace muster::data
