#include "muster/data/loader/loader_run.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::data::detail {
namespace {

/// The first sample that fails when it is asked for alone; nothing if none does.
std::optional<int64_t> find_culprit(const Dataset& dataset,
                                    std::span<const int64_t> indices,
                                    const SampleContext& context) {
  for (const int64_t& index : indices) {
    try {
      dataset.get({&index, 1}, context);
    } catch (...) {
      return index;
    }
  }
  return std::nullopt;
}

/// To be called in a handler: throws the exception in flight again, nested in a muster::Error that
/// says where it was.
[[noreturn]] void rethrow_with_place(const std::string& place) {
  try {
    throw;
  } catch (const Error& error) {
    ErrorText text = error.text();
    text.refused = concat(place, ": ", text.refused);
    std::throw_with_nested(Error(error.kind(), std::move(text)));
  } catch (const std::exception& error) {
    std::throw_with_nested(environment_error({.refused = concat(place, ": ", error.what())}));
  } catch (...) {
    std::throw_with_nested(
        environment_error({.refused = concat(place, ": an exception that is no std::exception")}));
  }
}

/// What the dataset did not make in pinned memory itself.
void pin(Batch& batch) {
  for (auto& [name, tensor] : batch.tensors) {
    const bool can_be = tensor.defined() && tensor.is_cpu() && tensor.layout() == at::kStrided;
    if (can_be && !tensor.is_pinned()) tensor = tensor.pin_memory();
  }
}

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Outcome make_batch(const Dataset& dataset,
                   std::span<const int64_t> indices,
                   const SampleContext& context,
                   BatchPlace place) noexcept {
  const double start = steady_seconds();
  Outcome outcome;
  try {
    try {
      outcome.batch = dataset.get(indices, context);
      if (context.pinned) pin(*outcome.batch);
    } catch (...) {
      const auto culprit = find_culprit(dataset, indices, context);
      rethrow_with_place(concat("cannot load ",
                                culprit ? concat("sample ", *culprit, " in ") : "",
                                "batch ",
                                place.batch,
                                " of epoch ",
                                place.epoch));
    }
  } catch (...) {
    outcome.error = std::current_exception();
  }
  outcome.seconds = steady_seconds() - start;
  return outcome;
}

LoaderRun::LoaderRun(std::vector<int64_t> indices,
                     const LoaderState& start,
                     int64_t world_size,
                     const LoaderOptions& options)
    : indices_(std::move(indices)),
      start_(start),
      world_size_(world_size),
      batch_size_(options.batch_size),
      batches_(static_cast<int64_t>(indices_.size()) / batch_size_),
      ring_(static_cast<size_t>(std::max<int64_t>(1, options.workers * options.prefetch_batches))) {
  if (!options.drop_last && static_cast<int64_t>(indices_.size()) % batch_size_ != 0) ++batches_;
}

std::span<const int64_t> LoaderRun::batch_indices(int64_t batch) const {
  const std::span<const int64_t> all(indices_);
  const auto from = static_cast<size_t>(batch * batch_size_);
  return all.subspan(from, std::min(static_cast<size_t>(batch_size_), all.size() - from));
}

bool LoaderRun::can_claim() const {
  return claimed_ < batches_ && claimed_ - taken_ < static_cast<int64_t>(ring_.size());
}

void LoaderRun::put(int64_t batch, Outcome outcome) {
  stats_.loading_s += outcome.seconds;
  ring_[static_cast<size_t>(batch) % ring_.size()] = std::move(outcome);
}

bool LoaderRun::next_is_ready() const {
  return ring_[static_cast<size_t>(taken_) % ring_.size()].has_value();
}

Outcome LoaderRun::pop() {
  return *std::exchange(ring_[static_cast<size_t>(taken_++) % ring_.size()], std::nullopt);
}

LoaderState LoaderRun::state() const {
  if (at_end()) return {.epoch = start_.epoch + 1};
  return {.epoch = start_.epoch, .samples = start_.samples + taken_ * batch_size_ * world_size_};
}

}  // namespace muster::data::detail
