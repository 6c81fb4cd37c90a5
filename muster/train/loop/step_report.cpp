#include "muster/train/loop/step_report.h"

#include <cmath>

#include <ATen/ops/empty.h>

namespace muster::train {

void StepReport::post(bool stop, const Meter& local) {
  const bool finite = std::isfinite(local.loss_sum);
  fields_ = at::empty({5}, at::kDouble);
  double* field = fields_.mutable_data_ptr<double>();
  field[0] = stop ? 1 : 0;
  field[1] = finite ? 0 : 1;
  field[2] = finite ? local.loss_sum : 0;
  field[3] = finite ? static_cast<double>(local.correct) : 0;
  field[4] = finite ? static_cast<double>(local.count) : 0;
  if (group_.world_size() == 1) return;
  fields_ = fields_.to(group_.device());
  std::vector<at::Tensor> tensors{fields_};
  work_ = group_.c10d()->allreduce(tensors);
}

void StepReport::wait() {
  if (work_) work_->wait();
  work_.reset();
  fields_ = fields_.cpu();
}

void StepReport::add_to(Meter& meter) const {
  meter.loss_sum += field(2);
  meter.correct += static_cast<int64_t>(field(3));
  meter.count += count();
}

double StepReport::field(int64_t index) const { return fields_.const_data_ptr<double>()[index]; }

}  // namespace muster::train
