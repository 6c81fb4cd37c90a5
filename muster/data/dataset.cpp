#include "muster/data/dataset.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/collate.h"
#include "muster/data/fingerprint.h"
#include "muster/formats/crc32.h"
#include "muster/formats/dataset_spec.h"

namespace muster::data {

namespace {

const at::Tensor* find_tensor(const tensor::NamedTensorList& tensors, std::string_view name) {
  for (const auto& [own, tensor] : tensors) {
    if (own == name) return &tensor;
  }
  return nullptr;
}

const at::Tensor& named_tensor(const tensor::NamedTensorList& tensors,
                               std::string_view name,
                               std::string_view owner) {
  if (const at::Tensor* found = find_tensor(tensors, name)) return *found;
  std::vector<std::string> known;
  for (const auto& [own, tensor] : tensors) known.push_back(own);
  throw usage_error({.refused = concat("a ", owner, " has no tensor \"", name, '"'),
                     .rule = known.empty() ? "it is empty" : "it has " + join(known, ", "),
                     .hint = suggestion(name, known)});
}

void check_indices(const Dataset& dataset, std::span<const int64_t> indices) {
  const int64_t samples = dataset.size();
  for (const int64_t index : indices) {
    if (index >= 0 && index < samples) continue;
    throw usage_error(
        {.refused = concat("no such sample in ", dataset.spec().name),
         .rule = samples == 0 ? "it has no samples" : concat("indices run from 0 to ", samples - 1),
         .value = concat(index),
         .hint = "was the sampler made for a dataset of another size?"});
  }
}

/// What load() promises: else samples count as none, or one row as all of them, and no number says so.
void check_loaded(const Dataset& dataset, const Batch& batch, std::span<const int64_t> asked) {
  const auto refused = [&](std::string rule, std::string value, std::string hint) {
    return usage_error({.refused = concat("load() of dataset ", dataset.spec().name),
                        .rule = std::move(rule),
                        .value = std::move(value),
                        .hint = std::move(hint)});
  };
  if (!std::ranges::equal(batch.indices, asked))
    throw refused("Batch::indices are those that were asked for",
                  concat(batch.indices.size(), " indices for ", asked.size()),
                  "say .indices = {indices.begin(), indices.end()}");
  if (dataset.is_by_sample()) return;
  for (const auto& [name, tensor] : batch.tensors) {
    if (tensor.dim() > 0 && tensor.size(0) == std::ssize(asked)) continue;
    throw refused(concat("tensor \"", name, "\" has a row for each of ", asked.size(), " samples"),
                  concat("shape ", tensor.sizes()),
                  "samples of unlike sizes are a SampleDataset's");
  }
}

}  // namespace

const at::Tensor* Batch::find(std::string_view name) const { return find_tensor(tensors, name); }

const at::Tensor& Batch::operator[](std::string_view name) const& {
  return named_tensor(tensors, name, "batch");
}

at::Tensor& Batch::operator[](std::string_view name) & {
  return const_cast<at::Tensor&>(std::as_const(*this)[name]);
}

const at::Tensor* Sample::find(std::string_view name) const { return find_tensor(tensors, name); }

const at::Tensor& Sample::operator[](std::string_view name) const {
  return named_tensor(tensors, name, "sample");
}

at::Tensor& Sample::operator[](std::string_view name) {
  return const_cast<at::Tensor&>(std::as_const(*this)[name]);
}

std::string_view to_string(DataKind kind) {
  return kind == DataKind::kImage ? "image" : kind == DataKind::kTokens ? "tokens" : "tensor";
}

Batch Dataset::get(std::span<const int64_t> indices, const SampleContext& context) const {
  check_indices(*this, indices);
  Batch batch = load(indices, context);
  check_loaded(*this, batch, indices);
  return batch;
}

std::vector<Sample> Dataset::samples(std::span<const int64_t> indices,
                                     const SampleContext& context) const {
  check_indices(*this, indices);
  return load_samples(indices, context);
}

std::vector<Sample> Dataset::load_samples(std::span<const int64_t> indices,
                                          const SampleContext& context) const {
  return rows_of(load(indices, context));
}

std::shared_ptr<const Sampler> Dataset::own_sampler(const EpochShare&) const { return nullptr; }

Batch Dataset::collate(const std::vector<Sample>& samples) const { return Collate()(samples); }

std::vector<Sample> rows_of(const Batch& batch) {
  std::vector<Sample> rows(batch.indices.size());
  for (size_t row = 0; row < rows.size(); ++row) rows[row].index = batch.indices[row];
  for (const auto& [name, tensor] : batch.tensors) {
    if (tensor.dim() < 1 || tensor.size(0) != batch.size()) {
      throw usage_error({.refused = concat("rows of the batch's tensor \"", name, '"'),
                         .rule = concat("one for each of its ", batch.size(), " samples"),
                         .value = concat(tensor.sizes()),
                         .hint = "a dataset of ragged samples makes them one by one: derive it "
                                 "from SampleDataset"});
    }
    for (size_t row = 0; row < rows.size(); ++row)
      rows[row].tensors.emplace_back(name, tensor.select(0, static_cast<int64_t>(row)));
  }
  return rows;
}

uint32_t Dataset::fingerprint() const {
  constexpr int64_t kMost = 64;
  const int64_t all = size(), count = std::min(all, kMost);
  const uint32_t of_size = formats::crc32_of(std::to_string(all));
  if (count == 0) return of_size;
  std::vector<int64_t> spread;
  spread.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) spread.push_back(all / count * i + all % count * i / count);
  uint32_t sum = of_size;
  if (is_by_sample()) {  // which may be of unlike sizes, and only a task's own collate takes them
    for (const Sample& sample : samples(spread)) {
      for (const auto& [name, tensor] : sample.tensors) sum = fingerprint_of(tensor, sum);
    }
    return sum;
  }
  const Batch batch = get(spread);
  for (const auto& [name, tensor] : batch.tensors) sum = fingerprint_of(tensor, sum);
  return sum;
}

Spec parse_dataset_spec(std::string_view text) { return formats::parse_dataset_spec(text); }

std::string_view to_string(Split split) { return split == Split::kTrain ? "train" : "test"; }

}  // namespace muster::data
