// A sampler decides which samples one rank visits in an epoch, and in which order.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::data {

// Note [Position in an epoch]
// An epoch has one order over all ranks. Ranks take turns: with world size R and batches of B per
// rank, step k uses the places k*B*R … (k+1)*B*R-1 of that order. So the position in an epoch is
// one number, the samples consumed by all ranks together, and it means the same for any number of
// ranks or workers. Samplers take it as `consumed` and return what is left for their rank;
// checkpoints store it (LoaderState::samples); nothing else has to be stored, because an order is a
// function of (options, epoch).

/// Pure: the same arguments give the same indices. Any thread.
class Sampler {
 public:
  virtual ~Sampler() = default;

  /// What this rank has yet to visit in `epoch` (0, 1, 2, …) when all ranks together have consumed
  /// `consumed` samples of it. Throws a usage error if `epoch` or `consumed` is negative.
  virtual std::vector<int64_t> indices(int64_t epoch, int64_t consumed = 0) const = 0;

  /// How many samples this rank visits in a whole epoch.
  virtual int64_t size() const = 0;

  /// How many ranks share the epoch.
  virtual int64_t world_size() const { return 1; }
};

// For writers of samplers: the usage errors that samplers share, and the share of a rank.
void check_position(int64_t epoch, int64_t consumed);
void check_samples(int64_t samples);
void check_rank(int64_t world_size, int64_t rank);

/// The places first, first+step, first+2*step, … of `order`.
std::vector<int64_t> every_nth(const std::vector<int64_t>& order, int64_t first, int64_t step);

}  // namespace muster::data
