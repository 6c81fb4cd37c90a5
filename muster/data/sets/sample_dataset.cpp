#include "muster/data/sets/sample_dataset.h"

namespace muster::data {

std::vector<Sample> SampleDataset::load_samples(std::span<const int64_t> indices,
                                                const SampleContext& context) const {
  std::vector<Sample> samples;
  samples.reserve(indices.size());
  for (const int64_t index : indices) {
    samples.push_back(sample(index, context));
    samples.back().index = index;
  }
  return samples;
}

}  // namespace muster::data
