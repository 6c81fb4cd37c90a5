#include "muster/data/dataset.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/fingerprint.h"
#include "muster/formats/crc32.h"

namespace muster::data {

const at::Tensor* Batch::find(std::string_view name) const {
  for (const auto& [own, tensor] : tensors) {
    if (own == name) return &tensor;
  }
  return nullptr;
}

const at::Tensor& Batch::operator[](std::string_view name) const& {
  if (const at::Tensor* found = find(name)) return *found;
  std::vector<std::string> known;
  for (const auto& [own, tensor] : tensors) known.push_back(own);
  throw usage_error({.refused = concat("a batch has no tensor \"", name, '"'),
                     .rule = known.empty() ? "it is empty" : "it has " + join(known, ", "),
                     .hint = suggestion(name, known)});
}

at::Tensor& Batch::operator[](std::string_view name) & {
  return const_cast<at::Tensor&>(std::as_const(*this)[name]);
}

Batch Dataset::get(std::span<const int64_t> indices, const SampleContext& context) const {
  const int64_t samples = size();
  for (const int64_t index : indices) {
    if (index >= 0 && index < samples) continue;
    throw usage_error(
        {.refused = concat("no such sample in ", spec().name),
         .rule = samples == 0 ? "it has no samples" : concat("indices run from 0 to ", samples - 1),
         .value = concat(index),
         .hint = "was the sampler made for a dataset of another size?"});
  }
  return load(indices, context);
}

uint32_t Dataset::fingerprint() const {
  constexpr int64_t kMost = 64;
  const int64_t samples = size(), count = std::min(samples, kMost);
  const uint32_t of_size = formats::crc32_of(std::to_string(samples));
  if (count == 0) return of_size;
  std::vector<int64_t> spread;
  for (int64_t i = 0; i < count; ++i)
    spread.push_back(samples / count * i + samples % count * i / count);
  const Batch batch = get(spread);
  uint32_t sum = of_size;
  for (const auto& [name, tensor] : batch.tensors) sum = fingerprint_of(tensor, sum);
  return sum;
}

std::string_view to_string(Split split) { return split == Split::kTrain ? "train" : "test"; }

}  // namespace muster::data
