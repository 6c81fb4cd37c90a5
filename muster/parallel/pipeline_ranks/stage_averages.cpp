#include "muster/parallel/pipeline_ranks/stage_averages.h"

#include <algorithm>
#include <map>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "muster/base/error.h"

namespace muster::parallel {
namespace {

using Kind = std::pair<at::ScalarType, c10::Device>;

struct ByKind {
  bool operator()(const Kind& a, const Kind& b) const {
    return std::pair(a.first, a.second.str()) < std::pair(b.first, b.second.str());
  }
};

}  // namespace

StageAverages::StageAverages(distributed::ProcessGroup replicas,
                             std::vector<std::pair<int64_t, Tensors>> stages)
    : replicas_(std::move(replicas)), stages_(std::move(stages)) {
  std::sort(stages_.begin(), stages_.end(), [](const auto& a, const auto& b) {
    return a.first > b.first;
  });
}

void StageAverages::post(int64_t stage) {
  whole_.insert(stage);
  while (next_ < stages_.size() && whole_.contains(stages_[next_].first)) post_next(true);
}

void StageAverages::post_next(bool with_gradients) {
  const at::NoGradGuard no_grad;
  std::map<Kind, Tensors, ByKind> kinds;
  for (const at::Tensor& parameter : stages_[next_].second) {
    if (with_gradients && parameter.grad().defined() && parameter.grad().is_sparse())
      throw usage_error({.refused = "a sparse gradient in a stage that has replicas",
                         .rule = "their averages are of dense ones",
                         .hint = "an embedding without sparse gradients"});
    kinds[{parameter.scalar_type(), parameter.device()}].push_back(parameter);
  }
  ++next_;
  for (auto& [kind, parameters] : kinds) {
    const auto options = at::device(kind.second).dtype(kind.first);
    Tensors parts, marks;
    for (const at::Tensor& parameter : parameters) {
      const bool is_there = with_gradients && parameter.grad().defined();
      parts.push_back(is_there ? parameter.grad().reshape({-1})
                               : at::zeros(parameter.numel(), options));
      marks.push_back(is_there ? at::ones(1, options) : at::zeros(1, options));
    }
    parts.insert(parts.end(), marks.begin(), marks.end());
    at::Tensor sum = at::cat(parts);
    // As DDP: divided first, so that a sum of halves does not overflow.
    sum.narrow(0, 0, sum.numel() - std::ssize(marks)).div_(replicas_.world_size());
    waits_ = true;
    distributed::Work work = replicas_.all_reduce_async(sum);
    waits_ = false;
    sums_.push_back({std::move(parameters), std::move(sum), std::move(work)});
  }
}

void StageAverages::wait() {
  const at::NoGradGuard no_grad;
  for (Sum& sum : sums_) {
    waits_ = true;
    sum.work.wait();
    waits_ = false;
    const auto count = std::ssize(sum.parameters);
    const at::Tensor marks = sum.flat.narrow(0, sum.flat.numel() - count, count).cpu();
    int64_t from = 0;
    for (int64_t i = 0; i < count; ++i) {
      const at::Tensor& parameter = sum.parameters[static_cast<size_t>(i)];
      const at::Tensor mean = sum.flat.narrow(0, from, parameter.numel()).view_as(parameter);
      from += parameter.numel();
      if (marks[i].item<double>() == 0) continue;  // nobody has one
      at::Tensor& gradient = parameter.mutable_grad();
      if (gradient.defined()) {
        gradient.copy_(mean);
      } else {
        gradient = mean.clone();
      }
    }
  }
  sums_.clear();
}

void StageAverages::give_up() {
  while (next_ < stages_.size()) post_next(false);
  for (const Sum& sum : sums_) sum.work.wait();
  sums_.clear();
}

}  // namespace muster::parallel
