#include "muster/train/progress/step_report.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/ops/cat.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

namespace muster::train {
namespace {

constexpr size_t kFlags = 2;  // before the sums
// In the field that counts the ranks that want to stop: those whose hook has thrown. A field of its
// own would move the sums to other places, and a ring sums each place in another order of ranks.
constexpr double kHookFailed = 1LL << 32;
// There, too, and above what all ranks' hooks may add up to: the run's time is over, said by one.
constexpr double kTimeIsOver = 1LL << 50;

double flags_of(const StepReport::Wishes& wishes) {
  return (wishes.stop ? 1.0 : 0.0) + (wishes.hook_failed ? kHookFailed : 0.0) +
         (wishes.time_is_over ? kTimeIsOver : 0.0);
}

struct Fields {
  at::Tensor sums, maxima;
};

Fields fields_of(const StepReport::Wishes& wishes, const Meter& local) {
  const bool finite = std::isfinite(local.loss_sum());
  const Meter nothing = Meter(local.shared_list());
  const Meter& told = finite ? local : nothing;
  std::vector<double> fields{flags_of(wishes), finite ? 0.0 : 1.0};
  const std::vector<double> sums = told.sums();
  fields.insert(fields.end(), sums.begin(), sums.end());
  return {.sums = at::tensor(fields, at::kDouble),
          .maxima = told.has_extremes() ? at::tensor(told.maxima(), at::kDouble) : at::Tensor()};
}

/// The same without a look at the numbers.
Fields fields_there(const StepReport::Wishes& wishes, const StepSums& local) {
  const c10::NoGradGuard no_grad;
  const at::Tensor finite = at::isfinite(local.loss());
  const at::Tensor sums = local.sums();
  const at::Tensor flags =
      at::tensor({flags_of(wishes), 1.0}, at::kDouble).to(local.device(), /*non_blocking=*/true);
  flags.select(0, 1).copy_(finite.logical_not());
  Fields fields{.sums = at::cat({flags, at::where(finite, sums, at::zeros_like(sums))})};
  if (!local.on_host().has_extremes()) return fields;
  const at::Tensor maxima = local.maxima();
  fields.maxima = at::where(finite, maxima, -std::numeric_limits<double>::infinity());
  return fields;
}

}  // namespace

StepReport::StepReport(distributed::ProcessGroup group, Meter::List metrics, c10::Device device)
    : group_(std::move(group)), device_(device), sum_(std::move(metrics)) {}

void StepReport::post(Wishes wishes, const StepSums& local) {
  start_coming();
  Exchange& exchange = exchanges_.emplace_back();
  const bool is_here = local.device().is_cpu();
  if (!is_here && (group_.world_size() == 1 || local.device().type() != device_.type())) {
    exchange.coming.emplace(Coming{
        .wishes = wishes, .weights = local.on_host(), .values = tensor::HostCopy(local.values())});
    return;
  }
  Fields fields = is_here ? fields_of(wishes, local.on_host()) : fields_there(wishes, local);
  exchange.sums = std::move(fields.sums);
  exchange.maxima = std::move(fields.maxima);
  start(exchange);
}

/// Those whose values had a step's time to come.
void StepReport::start_coming() {
  for (Exchange& exchange : exchanges_) {
    if (!exchange.coming) continue;
    Coming coming = *std::exchange(exchange.coming, std::nullopt);
    Fields fields =
        fields_of(coming.wishes, StepSums::joined(coming.weights, coming.values.wait()));
    exchange.sums = std::move(fields.sums);
    exchange.maxima = std::move(fields.maxima);
    start(exchange);
  }
}

void StepReport::start(Exchange& exchange) {
  if (group_.world_size() == 1) return;
  const auto begin = [&](at::Tensor& tensor, c10d::ReduceOp::RedOpType op) {
    if (tensor.device().type() != device_.type()) tensor = tensor.to(device_);
    std::vector<at::Tensor> tensors{tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    return group_.c10d()->allreduce(tensors, options);
  };
  exchange.sums_work = begin(exchange.sums, c10d::ReduceOp::SUM);
  if (exchange.maxima.defined()) exchange.maxima_work = begin(exchange.maxima, c10d::ReduceOp::MAX);
}

void StepReport::end_works(Exchange& exchange) {
  for (auto* work : {&exchange.sums_work, &exchange.maxima_work}) {
    if (*work) (*work)->wait();
    work->reset();
  }
}

void StepReport::send_answers() {
  for (Exchange& exchange : exchanges_) {
    if (exchange.coming || exchange.sums_sent || exchange.sums.is_cpu()) continue;
    end_works(exchange);  // on a device: its stream waits
    exchange.sums_sent.emplace(exchange.sums);
    if (exchange.maxima.defined()) exchange.maxima_sent.emplace(exchange.maxima);
  }
}

void StepReport::wait() {
  if (exchanges_.front().coming) start_coming();
  send_answers();
  Exchange exchange = std::move(exchanges_.front());
  exchanges_.pop_front();
  end_works(exchange);
  if (exchange.sums_sent) exchange.sums = exchange.sums_sent->wait();
  if (exchange.maxima_sent) exchange.maxima = exchange.maxima_sent->wait();
  const double* fields = exchange.sums.const_data_ptr<double>();
  time_is_over_ = fields[0] >= kTimeIsOver;
  hook_failed_ = std::fmod(fields[0], kTimeIsOver) >= kHookFailed;
  stop_ = std::fmod(fields[0], kHookFailed) > 0;
  not_finite_ = static_cast<int64_t>(fields[1]);
  sum_.set_sums(fields + kFlags,
                exchange.maxima.defined() ? exchange.maxima.const_data_ptr<double>() : nullptr);
}

}  // namespace muster::train
