#include "muster/data/dataset.h"

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::data {

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

std::string_view to_string(Split split) { return split == Split::kTrain ? "train" : "test"; }

}  // namespace muster::data
