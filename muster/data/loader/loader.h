// The loader: batches in the sampler's order, made ahead of time by worker threads.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>

#include <c10/core/Device.h>

#include "muster/data/dataset.h"
#include "muster/data/samplers/sampler.h"

namespace muster::data {

namespace detail {
class LoaderPool;
class LoaderRun;
}  // namespace detail

struct LoaderOptions {
  /// Samples per batch of this rank.
  int64_t batch_size = 1;
  /// Threads that make batches. 0: the calling thread makes each when it is asked for.
  int64_t workers = 0;
  /// Per worker: at most workers * prefetch_batches batches are made or being made.
  int64_t prefetch_batches = 2;
  /// Leave out a last batch that is smaller than batch_size.
  bool drop_last = false;
  /// Handed to the dataset with the epoch; see SampleContext.
  uint64_t seed = 0;
  /// Where the batches are going. For an accelerator of this process they are made in pinned memory,
  /// by the workers; see DeviceBatches.
  c10::Device device = c10::kCPU;
  /// Seconds that next() waits for a batch at most, as the `timeout` of PyTorch's DataLoader; 0: as long
  /// as it takes. For workers only.
  double timeout_s = 0;
};

/// A place in the data to resume from. See Note [Position in an epoch].
struct LoaderState {
  int64_t epoch = 0;
  int64_t samples = 0;  ///< consumed in that epoch by all ranks together

  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

/// Where the time of an epoch went so far. Seconds by a steady clock.
struct LoaderStats {
  int64_t batches = 0;      ///< handed out
  double elapsed_s = 0;     ///< from the first request to the end of the last one
  double waited_s = 0;      ///< of that, the consumer's waits (workers = 0: its own loading)
  double first_wait_s = 0;  ///< of that, the wait for the first batch; no prefetch can hide it
  double loading_s = 0;     ///< spent in the dataset, summed over the workers

  /// The share of the time after the first batch that the consumer waited, 0 … 1.
  double waiting_share() const;

  /// True if the data is what holds the training up: the consumer waits for more than a tenth of
  /// its time.
  bool loader_bound() const { return waiting_share() > 0.1; }

  /// Epochs one after the other: times and batches add up.
  LoaderStats& operator+=(const LoaderStats& later);
};

/// Batches of one epoch, in order. Made by Loader::epoch; one thread uses it.
///
/// Leaving it early is fine: what was prefetched is dropped and the next epoch starts at once.
class Epoch {
 public:
  class Iterator;

  ~Epoch();
  Epoch(Epoch&&) noexcept;
  Epoch& operator=(Epoch&&) noexcept;

  /// The next batch, or nothing at the end of the epoch. If the dataset threw for this batch,
  /// throws a muster::Error that names the epoch, the batch and, where it can be found out, the
  /// sample; the dataset's own exception is nested in it. The call after that goes on with the next
  /// batch. Throws a usage error if a later epoch was begun meanwhile. Throws an environment error
  /// after LoaderOptions::timeout_s, which names the batch, and what its worker has in hand: the sample,
  /// where the dataset says it (note_in_hand); the call after that waits for the same batch again.
  std::optional<Batch> next();

  /// Where to resume after the batches handed out so far: Loader::epoch(state) gives exactly the
  /// others. A batch that failed counts as handed out. After the last batch it is the start of the
  /// next epoch.
  LoaderState state() const;

  /// Number of batches from the start of this object to the end of the epoch.
  int64_t batches() const;

  LoaderStats stats() const;

  /// For `for (Batch& batch : loader.epoch(e))`.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  friend class Loader;
  explicit Epoch(std::shared_ptr<detail::LoaderPool> pool, std::shared_ptr<detail::LoaderRun> run);

  std::shared_ptr<detail::LoaderPool> pool_;
  std::shared_ptr<detail::LoaderRun> run_;
};

class Epoch::Iterator {
 public:
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  explicit Iterator(Epoch* epoch) : epoch_(epoch), batch_(epoch->next()) {}

  Batch& operator*() { return *batch_; }
  Batch* operator->() { return &*batch_; }
  Iterator& operator++();
  friend bool operator==(const Iterator& it, std::default_sentinel_t) { return !it.batch_; }

 private:
  Epoch* epoch_;
  std::optional<Batch> batch_;
};

inline Epoch::Iterator Epoch::begin() { return Iterator(this); }

/// Order, content and errors do not depend on the number of workers. One thread uses a loader; the
/// workers are its own.
///
///   Loader loader(dataset, {.batch_size = 64, .workers = 2},
///                 std::make_unique<DistributedSampler>(dataset->size(), options));
///   for (Batch& batch : loader.epoch(e)) step(batch["data"], batch["target"]);
class Loader {
 public:
  /// Throws a usage error for a batch size or prefetch below 1, a negative number of workers, or a
  /// timeout that is negative, not finite, or without workers.
  /// Threads start with the first epoch. No sampler means SequentialSampler.
  Loader(std::shared_ptr<const Dataset> dataset,
         LoaderOptions options,
         std::shared_ptr<const Sampler> sampler = nullptr);

  /// Ends the workers; waits only for the batches that are being made at this moment, and not for one that
  /// next() has given up: its thread ends when it comes back, and keeps the dataset until then. Epoch
  /// objects may outlive it but give no more batches.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Starts an epoch behind the first `start_at_sample` samples (of all ranks together) and ends
  /// the one before it.
  Epoch epoch(int64_t epoch, int64_t start_at_sample = 0);
  Epoch epoch(const LoaderState& state) { return epoch(state.epoch, state.samples); }

  /// Batches of this rank in a whole epoch.
  int64_t batches_per_epoch() const;

  const Dataset& dataset() const;
  const Sampler& sampler() const;
  const LoaderOptions& options() const;

 private:
  std::shared_ptr<detail::LoaderPool> pool_;
};

/// Workers per rank for a machine of `cores` whose cores are shared by `local_ranks` ranks: a
/// rank's share of the cores, less the one that it trains on, and at most 4, which keeps up with
/// any decoding worth prefetching on a CPU machine. Throws a usage error if an argument is below 1.
int64_t default_workers(int64_t cores, int64_t local_ranks);

}  // namespace muster::data
