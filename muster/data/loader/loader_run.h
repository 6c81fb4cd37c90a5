// What one epoch of a loader is made of. Internal to the loader.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/loader/loader.h"

namespace muster::data::detail {

/// A batch that was made, or why it was not.
struct Outcome {
  std::optional<Batch> batch;
  std::exception_ptr error;
  double seconds = 0;
};

/// The place of a batch, for messages.
struct BatchPlace {
  int64_t epoch = 0;
  int64_t batch = 0;
};

/// Never throws: what the dataset throws is wrapped as Epoch::next promises. In pinned memory if the
/// context says so.
Outcome make_batch(const Dataset& dataset,
                   std::span<const int64_t> indices,
                   const SampleContext& context,
                   BatchPlace place) noexcept;

/// Seconds of a steady clock.
double steady_seconds();

/// One epoch: the indices, cut into batches, and a ring of outcomes. A batch is claimed by a
/// worker, made, put into its place of the ring, and taken by the consumer, in order. Not
/// thread-safe: LoaderPool's mutex guards every member but the constants.
class LoaderRun {
 public:
  LoaderRun(std::vector<int64_t> indices,
            const LoaderState& start,
            int64_t world_size,
            const LoaderOptions& options);

  int64_t epoch() const { return start_.epoch; }
  int64_t batches() const { return batches_; }
  std::span<const int64_t> batch_indices(int64_t batch) const;

  /// Whether a batch is left and the ring has room for it.
  bool can_claim() const;
  int64_t claim() { return claimed_++; }
  void put(int64_t batch, Outcome outcome);

  bool at_end() const { return taken_ == batches_; }
  int64_t next_batch() const { return taken_; }
  bool next_is_ready() const;
  Outcome pop();

  LoaderState state() const;

  LoaderStats& stats() { return stats_; }
  const LoaderStats& stats() const { return stats_; }
  double& first_request_s() { return first_request_s_; }

 private:
  std::vector<int64_t> indices_;
  LoaderState start_;
  int64_t world_size_;
  int64_t batch_size_;
  int64_t batches_;
  std::vector<std::optional<Outcome>> ring_;
  int64_t claimed_ = 0;
  int64_t taken_ = 0;
  LoaderStats stats_;
  double first_request_s_ = 0;
};

}  // namespace muster::data::detail
