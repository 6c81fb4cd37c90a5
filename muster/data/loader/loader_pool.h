// The worker threads of a loader and the queue between them and the consumer. Internal to the
// loader.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "muster/data/batch_memory.h"
#include "muster/data/in_hand.h"
#include "muster/data/loader/loader.h"
#include "muster/data/loader/loader_run.h"

namespace muster::data::detail {

// Note [Loader]
// Workers claim batch numbers of the current run, one after the other, so the order of claims is
// the order of batches and a slow batch holds up nobody but the consumer. The ring of a run bounds
// what is claimed and not taken. An epoch that is left early only ceases to be the current run: a
// worker in the middle of a batch finishes it into the old run, which dies with its last holder,
// and claims the next from the new run. A failed batch takes its place in the ring like any other,
// so an error changes neither order nor depth.
//
// A worker that never comes back (a file system that does not answer) cannot be ended. Once next() has
// given its batch up, closing does not wait for it: threads hold the pool, and the last one ends it.
class LoaderPool : public std::enable_shared_from_this<LoaderPool> {
 public:
  LoaderPool(std::shared_ptr<const Dataset> dataset,
             LoaderOptions options,
             std::shared_ptr<const Sampler> sampler);

  const Dataset& dataset() const { return *dataset_; }
  const Sampler& sampler() const { return *sampler_; }
  const LoaderOptions& options() const { return options_; }

  /// Makes a run the current one. Starts the workers if they are not there yet.
  std::shared_ptr<LoaderRun> begin(const LoaderState& start);

  /// The consumer's side; see Epoch.
  std::optional<Batch> next(const std::shared_ptr<LoaderRun>& run);
  LoaderState state(const LoaderRun& run) const;
  LoaderStats stats(const LoaderRun& run) const;

  /// Ends the run if it is the current one.
  void abandon(const std::shared_ptr<LoaderRun>& run);

  /// Ends the workers and waits for them, but for those that were given up. No run gives batches
  /// afterwards.
  void close();

 private:
  struct Worker {
    std::thread thread;  // only the consumer's thread touches it
    InHand hand;
    const LoaderRun* run = nullptr;  // what it makes a batch of; the mutex guards these
    int64_t batch = 0;
    bool is_given_up = false;
  };

  void start_workers();
  void work(Worker& self);
  void await_batch(std::unique_lock<std::mutex>& lock, const std::shared_ptr<LoaderRun>& run);
  [[noreturn]] void give_up(const LoaderRun& run);
  Outcome make(const LoaderRun& run, int64_t batch) const;
  Outcome await(const std::shared_ptr<LoaderRun>& run);
  void check_current(const LoaderRun& run) const;

  const std::shared_ptr<const Dataset> dataset_;
  const LoaderOptions options_;
  const std::shared_ptr<const Sampler> sampler_;
  const std::unique_ptr<BatchMemory> memory_;  // see Note [Batch memory]

  mutable std::mutex mutex_;  // guards what follows, and the runs
  std::condition_variable work_there_;
  std::condition_variable batch_there_;
  std::shared_ptr<LoaderRun> current_;
  bool closed_ = false;
  std::vector<std::shared_ptr<Worker>> workers_;  // only the consumer's thread touches the vector
};

}  // namespace muster::data::detail
