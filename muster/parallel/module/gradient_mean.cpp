#include "muster/parallel/module/gradient_mean.h"

#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "muster/base/error.h"

namespace muster::parallel {

void store_gradient(const at::Tensor& parameter, const at::Tensor& values) {
  at::Tensor& gradient = parameter.mutable_grad();
  if (gradient.defined()) {
    gradient.copy_(values);
  } else {
    gradient = values.clone();
  }
}

GradientMean::GradientMean(const std::vector<at::Tensor>& parameters,
                           int ranks,
                           bool with_gradients) {
  const at::NoGradGuard no_grad;
  std::map<std::pair<at::ScalarType, std::string>, std::vector<at::Tensor>> kinds;
  for (const at::Tensor& parameter : parameters) {
    if (with_gradients && parameter.grad().defined() && parameter.grad().is_sparse())
      throw usage_error({.refused = "a sparse gradient that is averaged apart from backward",
                         .rule = "such averages are of dense ones",
                         .hint = "an embedding without sparse gradients"});
    kinds[{parameter.scalar_type(), parameter.device().str()}].push_back(parameter);
  }
  for (auto& [kind, alike] : kinds) {
    std::vector<at::Tensor> parts, marks;
    for (const at::Tensor& parameter : alike) {
      const auto options = at::device(parameter.device()).dtype(parameter.scalar_type());
      const bool is_there = with_gradients && parameter.grad().defined();
      parts.push_back(is_there ? parameter.grad().reshape({-1})
                               : at::zeros(parameter.numel(), options));
      marks.push_back(is_there ? at::ones(1, options) : at::zeros(1, options));
    }
    parts.insert(parts.end(), marks.begin(), marks.end());
    at::Tensor flat = at::cat(parts);
    flat.narrow(0, 0, flat.numel() - std::ssize(marks)).div_(ranks);
    sums_.push_back({std::move(alike), std::move(flat), {}});
  }
}

void GradientMean::start(const distributed::ProcessGroup& group) {
  const at::NoGradGuard no_grad;
  for (Sum& sum : sums_) sum.work = group.all_reduce_async(sum.flat);
}

void GradientMean::wait() {
  for (const Sum& sum : sums_) sum.work.wait();
}

void GradientMean::store() {
  const at::NoGradGuard no_grad;
  for (const Sum& sum : sums_) {
    const auto count = std::ssize(sum.parameters);
    const at::Tensor marks = sum.flat.narrow(0, sum.flat.numel() - count, count).cpu();
    int64_t from = 0;
    for (int64_t i = 0; i < count; ++i) {
      const at::Tensor& parameter = sum.parameters[static_cast<size_t>(i)];
      const at::Tensor mean = sum.flat.narrow(0, from, parameter.numel()).view_as(parameter);
      from += parameter.numel();
      if (marks[i].item<double>() == 0) continue;  // nobody has one
      store_gradient(parameter, mean);
    }
  }
}

}  // namespace muster::parallel
