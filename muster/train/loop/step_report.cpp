#include "muster/train/loop/step_report.h"

#include <cmath>
#include <vector>

#include <ATen/ops/tensor.h>

namespace muster::train {
namespace {

constexpr size_t kFlags = 2;  // before the sums
// In the field that counts the ranks that want to stop: those whose hook has thrown. A field of its
// own would move the sums to other places, and a ring sums each place in another order of ranks.
constexpr double kHookFailed = 1LL << 32;

}  // namespace

void StepReport::post(Wishes wishes, const Meter& local) {
  const bool finite = std::isfinite(local.loss_sum());
  const Meter nothing = Meter(local.shared_list());
  const Meter& told = finite ? local : nothing;
  const double flags = (wishes.stop ? 1.0 : 0.0) + (wishes.hook_failed ? kHookFailed : 0.0);
  std::vector<double> fields{flags, finite ? 0.0 : 1.0};
  const std::vector<double> sums = told.sums();
  fields.insert(fields.end(), sums.begin(), sums.end());
  sums_ = at::tensor(fields, at::kDouble);
  maxima_ = told.has_extremes() ? at::tensor(told.maxima(), at::kDouble) : at::Tensor();
  if (group_.world_size() == 1) return;
  const auto start = [&](at::Tensor& tensor, c10d::ReduceOp::RedOpType op) {
    tensor = tensor.to(group_.device());
    std::vector<at::Tensor> tensors{tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    return group_.c10d()->allreduce(tensors, options);
  };
  sums_work_ = start(sums_, c10d::ReduceOp::SUM);
  if (maxima_.defined()) maxima_work_ = start(maxima_, c10d::ReduceOp::MAX);
}

void StepReport::wait() {
  for (auto* work : {&sums_work_, &maxima_work_}) {
    if (*work) (*work)->wait();
    work->reset();
  }
  sums_ = sums_.cpu();
  const double* fields = sums_.const_data_ptr<double>();
  hook_failed_ = fields[0] >= kHookFailed;
  stop_ = std::fmod(fields[0], kHookFailed) > 0;
  not_finite_ = static_cast<int64_t>(fields[1]);
  if (maxima_.defined()) maxima_ = maxima_.cpu();
  sum_.take(fields + kFlags, maxima_.defined() ? maxima_.const_data_ptr<double>() : nullptr);
}

}  // namespace muster::train
