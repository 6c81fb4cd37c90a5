#include "muster/data/loader/loader_pool.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <c10/core/DeviceGuard.h>

#include "muster/base/duration.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/intraop_threads.h"
#include "muster/tensor/vector_math.h"

namespace muster::data::detail {
namespace {

/// The first of them.
std::string named(std::span<const int64_t> samples) {
  constexpr size_t kNamed = 8;
  std::vector<std::string> names;
  for (const int64_t sample : samples.first(std::min(samples.size(), kNamed)))
    names.push_back(std::to_string(sample));
  return join(names, ", ") + (samples.size() > kNamed ? ", …" : "");
}

}  // namespace

LoaderPool::LoaderPool(std::shared_ptr<const Dataset> dataset,
                       LoaderOptions options,
                       std::shared_ptr<const Sampler> sampler)
    : dataset_(std::move(dataset)),
      options_(options),
      sampler_(std::move(sampler)),
      // Those of the ring, and one each that is made and that is used.
      memory_(std::make_unique<BatchMemory>(
          static_cast<size_t>(options.workers * options.prefetch_batches + 2))) {
  tensor::initialize_vector_math();
}

std::shared_ptr<LoaderRun> LoaderPool::begin(const LoaderState& start) {
  auto run = std::make_shared<LoaderRun>(
      sampler_->indices(start.epoch, start.samples), start, sampler_->world_size(), options_);
  std::shared_ptr<LoaderRun> old = run;
  {
    const std::lock_guard lock(mutex_);
    std::swap(current_, old);
  }
  memory_->wake();
  work_there_.notify_all();
  start_workers();
  return run;  // `old` gives its batches back here, outside the lock
}

void LoaderPool::start_workers() {
  while (static_cast<int64_t>(workers_.size()) < options_.workers) {
    try {
      auto worker = std::make_shared<Worker>();
      worker->thread = std::thread([pool = shared_from_this(), worker] { pool->work(*worker); });
      workers_.push_back(std::move(worker));
    } catch (const std::system_error& error) {
      throw environment_error({.refused = concat("cannot start loader worker ", workers_.size()),
                               .rule = error.what(),
                               .hint = "use fewer workers, or raise the limit on threads"});
    }
  }
}

void LoaderPool::work(Worker& self) {
  tensor::set_own_intraop_threads(1);
  if (options_.timeout_s > 0) own_hand = &self.hand;
  std::unique_lock lock(mutex_);
  for (;;) {
    work_there_.wait(lock, [this] { return closed_ || (current_ && current_->can_claim()); });
    if (closed_) return;
    std::shared_ptr<LoaderRun> run = current_;
    const int64_t batch = run->claim();
    self.run = run.get();
    self.batch = batch;
    self.hand.set("");
    lock.unlock();
    Outcome outcome = make(*run, batch);
    lock.lock();
    self.run = nullptr;
    self.is_given_up = false;
    run->put(batch, std::move(outcome));
    batch_there_.notify_one();
    if (run != current_) {  // left early; its batches are given back outside the lock
      lock.unlock();
      run.reset();
      lock.lock();
    }
  }
}

Outcome LoaderPool::make(const LoaderRun& run, int64_t batch) const {
  const bool pinned = !options_.device.is_cpu();
  // Pinned memory is made for the current device: another one would be woken up for it.
  const c10::OptionalDeviceGuard device(pinned ? std::optional(options_.device) : std::nullopt);
  const BatchMemory::Use use(memory_.get(), pinned);
  const SampleContext context{.seed = options_.seed, .epoch = run.epoch(), .pinned = pinned};
  return make_batch(
      *dataset_, run.batch_indices(batch), context, {.epoch = run.epoch(), .batch = batch});
}

void LoaderPool::check_current(const LoaderRun& run) const {
  if (closed_) {
    throw usage_error({.refused = "batch of a loader that is gone",
                       .rule = "a loader outlives the use of its epochs"});
  }
  if (current_.get() == &run) return;
  throw usage_error({.refused = concat("batch of epoch ", run.epoch()),
                     .rule = "a loader has one epoch at a time, and a later one was begun",
                     .hint = "finish the epoch first, or use a second loader"});
}

void LoaderPool::await_batch(std::unique_lock<std::mutex>& lock,
                             const std::shared_ptr<LoaderRun>& run) {
  const auto is_over = [&] { return closed_ || current_ != run || run->next_is_ready(); };
  if (options_.timeout_s == 0) return batch_there_.wait(lock, is_over);
  if (!batch_there_.wait_for(lock, bounded_wait(options_.timeout_s), is_over)) give_up(*run);
}

/// The batch that the consumer waits for may come all the same, and is there for the next call.
void LoaderPool::give_up(const LoaderRun& run) {
  const int64_t batch = run.next_batch();
  std::string in_hand;
  for (const auto& worker : workers_) {
    if (worker->run != &run || worker->batch != batch) continue;
    worker->is_given_up = true;
    in_hand = worker->hand.what();
  }
  if (in_hand.empty()) in_hand = "one of the samples " + named(run.batch_indices(batch));
  throw environment_error(
      {.refused = concat("batch ", batch, " of epoch ", run.epoch()),
       .rule =
           concat("a worker makes it within ", options_.timeout_s, " s; still in hand: ", in_hand),
       .hint = "look whether the file can be read (a network's file system may "
               "not answer), and whether a transform ends; or allow more time"});
}

Outcome LoaderPool::await(const std::shared_ptr<LoaderRun>& run) {
  std::unique_lock lock(mutex_);
  check_current(*run);
  if (options_.workers == 0) {
    // Nobody else is there, so the lock is free to go while the batch is made.
    const int64_t batch = run->claim();
    lock.unlock();
    Outcome outcome = make(*run, batch);
    lock.lock();
    run->put(batch, std::move(outcome));
  }
  await_batch(lock, run);
  check_current(*run);
  Outcome outcome = run->pop();
  lock.unlock();
  work_there_.notify_one();
  return outcome;
}

std::optional<Batch> LoaderPool::next(const std::shared_ptr<LoaderRun>& run) {
  const double start = steady_seconds();
  bool is_over = false, is_current = false;
  {
    const std::lock_guard lock(mutex_);
    is_over = run->at_end();
    is_current = current_ == run;
    if (!is_over && run->first_request_s() == 0) run->first_request_s() = start;
  }
  if (is_over) {
    if (is_current) memory_->rest();
    return std::nullopt;
  }
  Outcome outcome = await(run);
  const double now = steady_seconds();
  {
    const std::lock_guard lock(mutex_);
    LoaderStats& stats = run->stats();
    stats.waited_s += now - start;
    if (stats.batches++ == 0) stats.first_wait_s = now - start;
    stats.elapsed_s = now - run->first_request_s();
  }
  if (outcome.error) std::rethrow_exception(outcome.error);
  return std::move(outcome.batch);
}

LoaderState LoaderPool::state(const LoaderRun& run) const {
  const std::lock_guard lock(mutex_);
  return run.state();
}

LoaderStats LoaderPool::stats(const LoaderRun& run) const {
  const std::lock_guard lock(mutex_);
  return run.stats();
}

void LoaderPool::abandon(const std::shared_ptr<LoaderRun>& run) {
  {
    const std::lock_guard lock(mutex_);
    if (current_ != run) return;
    current_.reset();  // the caller holds it: no batch dies under the lock
  }
  memory_->rest();
}

void LoaderPool::close() {
  std::shared_ptr<LoaderRun> last;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    std::swap(last, current_);
    for (const auto& worker : workers_)
      if (worker->is_given_up) worker->thread.detach();
  }
  work_there_.notify_all();
  batch_there_.notify_all();
  for (const auto& worker : workers_)
    if (worker->thread.joinable()) worker->thread.join();
  workers_.clear();
  memory_->rest();
}

}  // namespace muster::data::detail
