#include "muster/data/samplers/exact_cover.h"

#include <algorithm>

#include "muster/data/samplers/permutation.h"

namespace muster::data {

ExactCoverSampler::ExactCoverSampler(int64_t samples, ExactCoverSamplerOptions options)
    : samples_(samples), options_(options) {
  check_samples(samples);
  check_rank(options.world_size, options.rank);
}

int64_t ExactCoverSampler::size() const {
  const int64_t world = options_.world_size;
  return samples_ / world + (options_.rank < samples_ % world ? 1 : 0);
}

std::vector<int64_t> ExactCoverSampler::indices(int64_t epoch, int64_t consumed) const {
  check_position(epoch, consumed);
  const int64_t first = std::min(consumed, samples_) + options_.rank;
  if (!options_.shuffle) return every_nth(counting(samples_), first, options_.world_size);
  at::Generator generator = make_generator(options_.seed + static_cast<uint64_t>(epoch));
  return every_nth(random_permutation(samples_, generator), first, options_.world_size);
}

}  // namespace muster::data
