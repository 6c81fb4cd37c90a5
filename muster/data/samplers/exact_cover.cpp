#include "muster/data/samplers/exact_cover.h"

#include <algorithm>

#include "muster/data/samplers/permutation.h"

namespace muster::data {

ExactCoverSampler::ExactCoverSampler(int64_t samples, int64_t world_size, int64_t rank)
    : samples_(samples), world_size_(world_size), rank_(rank) {
  check_samples(samples);
  check_rank(world_size, rank);
}

int64_t ExactCoverSampler::size() const {
  return samples_ / world_size_ + (rank_ < samples_ % world_size_ ? 1 : 0);
}

std::vector<int64_t> ExactCoverSampler::indices(int64_t epoch, int64_t consumed) const {
  check_position(epoch, consumed);
  return every_nth(counting(samples_), std::min(consumed, samples_) + rank_, world_size_);
}

}  // namespace muster::data
