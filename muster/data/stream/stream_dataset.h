// Samples in shards that are read from their start: files of a million rows, archives, what comes
// over a wire.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "muster/data/collate.h"
#include "muster/data/dataset.h"

namespace muster::data {

// Note [Streams]
// A shard is read from its start, sample by sample; so a stream is fast in one order only, and says
// which (Dataset::own_sampler). A few lanes are read side by side, by all ranks together. A lane takes
// the next unread shard of the epoch's order (shuffled by seed and epoch) when its own is at the end,
// and within a lane each window of samples is shuffled. The epoch's order takes one sample of each
// lane in turn, and ranks take turns in it, as everywhere (Note [Position in an epoch]): so the order
// is a pure function of the options, the seed and the epoch, the position is one number, and nothing
// is lost or repeated when a run goes on from the middle of an epoch, with other workers or ranks, too.
// Where the number of lanes is a multiple of that of ranks, a rank reads the shards of its own lanes,
// but for the last shards of an epoch. Workers and windows ask for a shard's samples a little out of
// their order; what was read on the way is kept until it is asked for.

struct StreamOptions {
  int64_t lanes = 16;            ///< shards that are read side by side, by all ranks together
  int64_t shuffle_window = 256;  ///< samples of a lane that are shuffled among each other; 1: none
};

/// Reads one shard, from its start. One thread at a time.
class ShardReader {
 public:
  virtual ~ShardReader() = default;
  /// The next sample; called at most as often as the shard has samples. Its index is the caller's.
  virtual Sample next() = 0;
  /// Leaves samples out: override it where that is cheaper than to read them, which is done here.
  virtual void skip(int64_t samples) {
    for (; samples > 0; --samples) next();
  }
};

/// Derive, give the sizes of the shards, and open one. Sample i is the i-th of all shards one behind
/// the other. Any sample may be asked for at any time, but only its own_sampler()'s order is fast:
/// predictions, which are in the order of the samples, read every shard on each rank.
class StreamDataset : public Dataset {
 public:
  int64_t size() const final { return starts_.back(); }
  bool is_by_sample() const final { return true; }
  Batch collate(const std::vector<Sample>& samples) const final { return collate_(samples); }
  std::shared_ptr<const Sampler> own_sampler(const EpochShare& share) const final;
  /// Of the shards' sizes, and of the first samples of at most 64 of them.
  uint32_t fingerprint() const override;

 protected:
  /// Throws a usage error for a negative size, more samples than 64 bits count, and for lanes or a window
  /// below 1.
  explicit StreamDataset(const std::vector<int64_t>& shard_sizes,
                         const StreamOptions& options = {},
                         Collate collate = {});

 private:
  struct Shard;

  /// A reader at the shard's start. Any thread.
  virtual std::unique_ptr<ShardReader> open(int64_t shard) const = 0;

  Batch load(std::span<const int64_t> indices, const SampleContext& context) const final {
    return collate_(load_samples(indices, context));
  }
  std::vector<Sample> load_samples(std::span<const int64_t> indices,
                                   const SampleContext& context) const final;
  std::shared_ptr<Shard> opened(int64_t shard) const;
  Sample read(int64_t shard, int64_t offset) const;

  std::vector<int64_t> starts_;  // of each shard, and the end
  StreamOptions options_;
  Collate collate_;
  mutable std::mutex mutex_;  // guards what follows
  mutable std::map<int64_t, std::shared_ptr<Shard>> open_;
  mutable int64_t uses_ = 0;
};

}  // namespace muster::data
