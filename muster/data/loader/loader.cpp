#include "muster/data/loader/loader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/loader/loader_pool.h"
#include "muster/data/samplers/sequential.h"

namespace muster::data {
namespace {

void check_at_least(int64_t least, int64_t value, std::string_view what) {
  if (value >= least) return;
  throw usage_error(
      {.refused = "loader", .rule = concat(what, " is at least ", least), .value = concat(value)});
}

void check_timeout(const LoaderOptions& options) {
  const bool is_time = options.timeout_s >= 0 && std::isfinite(options.timeout_s);
  if (is_time && (options.timeout_s == 0 || options.workers > 0)) return;
  throw usage_error(
      {.refused = "loader",
       .rule = is_time ? "a timeout is for workers: without them the caller makes the batch"
                       : "the timeout is a number of seconds, 0 for none",
       .value = concat(options.timeout_s, " s, ", options.workers, " workers")});
}

}  // namespace

double LoaderStats::waiting_share() const {
  const double time = elapsed_s - first_wait_s;
  return time > 0 ? std::clamp((waited_s - first_wait_s) / time, 0.0, 1.0) : 0;
}

LoaderStats& LoaderStats::operator+=(const LoaderStats& later) {
  batches += later.batches;
  elapsed_s += later.elapsed_s;
  waited_s += later.waited_s;
  first_wait_s += later.first_wait_s;
  loading_s += later.loading_s;
  return *this;
}

Epoch::Epoch(std::shared_ptr<detail::LoaderPool> pool, std::shared_ptr<detail::LoaderRun> run)
    : pool_(std::move(pool)), run_(std::move(run)) {}

Epoch::Epoch(Epoch&&) noexcept = default;

Epoch& Epoch::operator=(Epoch&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(run_, other.run_);
  return *this;
}

Epoch::~Epoch() {
  if (pool_) pool_->abandon(run_);
}

std::optional<Batch> Epoch::next() { return pool_->next(run_); }
LoaderState Epoch::state() const { return pool_->state(*run_); }
LoaderStats Epoch::stats() const { return pool_->stats(*run_); }
int64_t Epoch::batches() const { return run_->batches(); }

Epoch::Iterator& Epoch::Iterator::operator++() {
  batch_.reset();  // before the next one is there: one batch less in memory
  batch_ = epoch_->next();
  return *this;
}

Loader::Loader(std::shared_ptr<const Dataset> dataset,
               LoaderOptions options,
               std::shared_ptr<const Sampler> sampler) {
  if (!dataset) throw usage_error({.refused = "loader", .rule = "it needs a dataset"});
  check_at_least(1, options.batch_size, "the batch size");
  check_at_least(0, options.workers, "the number of workers");
  check_at_least(1, options.prefetch_batches, "the number of batches to prefetch");
  check_timeout(options);
  if (!sampler) sampler = std::make_unique<SequentialSampler>(dataset->size());
  pool_ = std::make_shared<detail::LoaderPool>(std::move(dataset), options, std::move(sampler));
}

Loader::~Loader() { pool_->close(); }

Epoch Loader::epoch(int64_t epoch, int64_t start_at_sample) {
  return Epoch(pool_, pool_->begin({.epoch = epoch, .samples = start_at_sample}));
}

int64_t Loader::batches_per_epoch() const {
  const int64_t samples = sampler().size();
  const int64_t whole = samples / options().batch_size;
  return whole + (!options().drop_last && samples % options().batch_size != 0 ? 1 : 0);
}

const Dataset& Loader::dataset() const { return pool_->dataset(); }
const Sampler& Loader::sampler() const { return pool_->sampler(); }
const LoaderOptions& Loader::options() const { return pool_->options(); }

int64_t default_workers(int64_t cores, int64_t local_ranks) {
  check_at_least(1, cores, "the number of cores");
  check_at_least(1, local_ranks, "the number of ranks on this machine");
  return std::clamp<int64_t>(cores / local_ranks - 1, 0, 4);
}

}  // namespace muster::data
