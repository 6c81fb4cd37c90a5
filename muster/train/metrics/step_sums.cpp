#include "muster/train/metrics/step_sums.h"

#include <limits>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

namespace muster::train {
namespace {

bool has_extreme(const Metric& metric) {
  return metric.reduce == Reduce::kMin || metric.reduce == Reduce::kMax;
}

at::Tensor combined(Reduce reduce, const at::Tensor& a, const at::Tensor& b) {
  if (reduce == Reduce::kMin) return at::minimum(a, b);
  if (reduce == Reduce::kMax) return at::maximum(a, b);
  return a + b;
}

}  // namespace

StepSums::StepSums(Meter::List metrics, c10::Device device)
    : device_(device), host_(std::move(metrics)), values_(host_.list().size()) {}

void StepSums::add_loss(const at::Tensor& mean, double weight) {
  if (weight == 0) return;
  if (device_.is_cpu()) return host_.add_loss(mean.item<double>(), weight);
  const c10::NoGradGuard no_grad;
  const at::Tensor sum = mean.to(device_, at::kDouble).reshape(c10::IntArrayRef{}) * weight;
  loss_ = loss_.defined() ? loss_ + sum : sum;
  host_.add_loss(0, weight);
}

void StepSums::add(size_t metric, const at::Tensor& value, double weight) {
  if (weight == 0) return;
  if (device_.is_cpu()) return host_.add(metric, value.item<double>(), weight);
  const c10::NoGradGuard no_grad;
  at::Tensor& sum = values_.at(metric);
  const at::Tensor own = value.to(device_, at::kDouble).reshape(c10::IntArrayRef{});
  sum = sum.defined() ? combined(list()[metric].reduce, sum, own) : own;
  host_.add(metric, 0, weight);
}

at::Tensor StepSums::zero() const {
  return at::zeros({}, at::TensorOptions(at::kDouble).device(device_));
}

at::Tensor StepSums::loss() const { return loss_.defined() ? loss_ : zero(); }

at::Tensor StepSums::values() const {
  std::vector<at::Tensor> all{loss()};
  for (const at::Tensor& value : values_) all.push_back(value.defined() ? value : zero());
  return at::stack(all);
}

at::Tensor StepSums::sums() const {
  std::vector<at::Tensor> added{loss()};
  for (size_t i = 0; i < values_.size(); ++i) {
    const at::Tensor& value = values_[i];
    added.push_back(!value.defined()          ? zero()
                    : !has_extreme(list()[i]) ? value
                                              : at::where(at::isnan(value), value, zero()));
  }
  at::Tensor all = at::tensor(host_.sums(), at::kDouble).to(device_, /*non_blocking=*/true);
  all.view({-1, 2}).select(1, 0).copy_(at::stack(added));  // a weight behind each
  return all;
}

at::Tensor StepSums::maxima() const {
  std::vector<at::Tensor> all;
  for (size_t i = 0; i < values_.size(); ++i) {
    const bool has = values_[i].defined() && has_extreme(list()[i]);
    if (!has)
      all.push_back(at::full({}, -std::numeric_limits<double>::infinity(), zero().options()));
    else
      all.push_back(list()[i].reduce == Reduce::kMin ? -values_[i] : values_[i]);
  }
  return at::stack(all);
}

Meter StepSums::read() const { return device_.is_cpu() ? host_ : joined(host_, values().cpu()); }

Meter StepSums::joined(const Meter& weights, const at::Tensor& values) {
  const double* value = values.const_data_ptr<double>();
  std::vector<double> sums = weights.sums(), maxima = weights.maxima();
  for (size_t i = 0; 2 * i < sums.size(); ++i) sums[2 * i] = value[i];
  for (size_t i = 0; i < maxima.size(); ++i)
    maxima[i] = weights.list()[i].reduce == Reduce::kMin ? -value[i + 1] : value[i + 1];
  Meter all(weights.shared_list());
  all.set_sums(sums.data(), maxima.data());
  return all;
}

}  // namespace muster::train
