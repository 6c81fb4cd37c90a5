#include "muster/parallel/ddp/bucket_tuner.h"

#include <algorithm>

#include <ATen/ops/tensor.h>

namespace muster::parallel {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The index of the fastest cap on the slowest rank; the smaller cap if equal. The same on all.
int64_t agree(const std::vector<double>& medians, const distributed::ProcessGroup& group) {
  const at::Tensor slowest = at::tensor(medians, at::kDouble).to(group.device());
  group.all_reduce(slowest, c10d::ReduceOp::MAX);
  const at::Tensor choice = slowest.argmin();
  group.broadcast(choice, 0);
  return choice.item<int64_t>();
}

}  // namespace

BucketTuner::BucketTuner(int64_t gradient_bytes) {
  for (const int64_t mebibytes : {1, 5, 25, 100}) {
    caps_.push_back(mebibytes << 20);
    if (caps_.back() >= gradient_bytes) break;  // all in one bucket
  }
  done_ = caps_.size() == 1;
}

bool BucketTuner::start_step(double seconds, const distributed::ProcessGroup& group) {
  if (done_) return false;
  if (started_ > kSettleSteps) times_.push_back(seconds - last_start_);
  last_start_ = seconds;
  ++started_;
  if (times_.size() < kTimedSteps) return false;
  medians_.push_back(median(times_));
  times_.clear();
  started_ = 1;  // the step that starts now is the next cap's first
  if (++current_ == caps_.size()) {
    current_ = static_cast<size_t>(agree(medians_, group));
    done_ = true;
  }
  return true;
}

}  // namespace muster::parallel
