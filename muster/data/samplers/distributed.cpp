#include "muster/data/samplers/distributed.h"

#include <utility>

#include "muster/data/samplers/permutation.h"

namespace muster::data {
namespace {

/// The length of a rank's share of `samples` samples.
int64_t share(int64_t samples, const DistributedSamplerOptions& options) {
  const int64_t whole_rounds = samples / options.world_size;
  return whole_rounds + (!options.drop_last && samples % options.world_size != 0 ? 1 : 0);
}

std::vector<int64_t> global_order(int64_t samples,
                                  const DistributedSamplerOptions& options,
                                  int64_t epoch) {
  if (!options.shuffle) return counting(samples);
  at::Generator generator = make_generator(options.seed + static_cast<uint64_t>(epoch));
  return random_permutation(samples, generator);
}

}  // namespace

DistributedSampler::DistributedSampler(int64_t samples, DistributedSamplerOptions options)
    : samples_(samples), options_(options) {
  check_samples(samples);
  check_rank(options.world_size, options.rank);
}

int64_t DistributedSampler::size() const { return share(samples_, options_); }

std::vector<int64_t> DistributedSampler::indices(int64_t epoch, int64_t consumed) const {
  check_position(epoch, consumed);
  const std::vector<int64_t> order = global_order(samples_, options_, epoch);
  std::vector<int64_t> mine;
  if (consumed >= samples_) return mine;
  // What is left is dealt out as if it were the whole: padded or cut to a multiple of the world
  // size. For a position that this world size reached itself it is what it would have visited next;
  // after a change of the world size nothing is lost or, but for the padding at the end, repeated.
  const int64_t rounds = share(samples_ - consumed, options_);
  mine.reserve(static_cast<size_t>(rounds));
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t place = consumed + round * options_.world_size + options_.rank;
    mine.push_back(order[static_cast<size_t>(place % samples_)]);
  }
  return mine;
}

}  // namespace muster::data
