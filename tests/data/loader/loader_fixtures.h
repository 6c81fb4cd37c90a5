// Datasets that count, wait and fail on demand, for the tests of the loader.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <stdexcept>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "muster/base/text.h"
#include "muster/data/loader/loader.h"

namespace muster::data {

/// Sample i has data i and target 2*i.
class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t samples) : samples_(samples) {}

  int64_t size() const override { return samples_; }
  DataSpec spec() const override { return {.name = "numbers", .sample_shape = {}}; }

 protected:
  Batch load(std::span<const int64_t> indices, const SampleContext&) const override {
    const auto rows = static_cast<int64_t>(indices.size());
    Batch batch{{{"data", at::empty({rows}, at::kLong)}, {"target", at::empty({rows}, at::kLong)}},
                {indices.begin(), indices.end()}};
    for (int64_t row = 0; row < rows; ++row) {
      batch["data"].mutable_data_ptr<int64_t>()[row] = indices[static_cast<size_t>(row)];
      batch["target"].mutable_data_ptr<int64_t>()[row] = 2 * indices[static_cast<size_t>(row)];
    }
    return batch;
  }

 private:
  int64_t samples_;
};

/// Throws for some samples.
class Faulty final : public Numbers {
 public:
  Faulty(int64_t samples, std::set<int64_t> bad) : Numbers(samples), bad_(std::move(bad)) {}

 private:
  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override {
    for (const int64_t index : indices) {
      if (bad_.contains(index)) throw std::runtime_error(concat("rotten number ", index));
    }
    return Numbers::load(indices, context);
  }

  std::set<int64_t> bad_;
};

/// Counts the calls of load; holds each one back while the gate is shut.
class Gated final : public Numbers {
 public:
  using Numbers::Numbers;

  void set_open(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }

  /// Waits until load was called that often in all.
  void await_calls(int64_t calls) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return calls_ >= calls; });
  }

  int64_t calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

  /// Calls that have not come back.
  int64_t loading() const {
    const std::lock_guard lock(mutex_);
    return loading_;
  }

  std::vector<SampleContext> contexts() const {
    const std::lock_guard lock(mutex_);
    return contexts_;
  }

  std::vector<int> intraop_threads() const {
    const std::lock_guard lock(mutex_);
    return intraop_threads_;
  }

 private:
  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override {
    std::unique_lock lock(mutex_);
    ++calls_;
    ++loading_;
    contexts_.push_back(context);
    intraop_threads_.push_back(at::get_num_threads());
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    --loading_;
    return Numbers::load(indices, context);
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int64_t calls_ = 0, loading_ = 0;
  mutable std::vector<SampleContext> contexts_;
  mutable std::vector<int> intraop_threads_;
  bool open_ = true;
};

using Lists = std::vector<std::vector<int64_t>>;

/// The indices of the batches that are left; checks that data and targets belong to them.
inline Lists drain(Epoch& epoch) {
  Lists out;
  for (const Batch& batch : epoch) {
    for (size_t row = 0; row < batch.indices.size(); ++row) {
      if (batch["data"].const_data_ptr<int64_t>()[row] != batch.indices[row] ||
          batch["target"].const_data_ptr<int64_t>()[row] != 2 * batch.indices[row]) {
        throw std::logic_error("a row that is not its sample's");
      }
    }
    out.push_back(batch.indices);
  }
  return out;
}

inline Lists drain(Epoch&& epoch) { return drain(epoch); }

}  // namespace muster::data
