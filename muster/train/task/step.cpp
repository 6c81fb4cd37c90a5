#include "muster/train/task/step.h"

#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/dtype_name.h"

namespace muster::train {

c10::Device device_of(const data::Batch& batch) {
  for (const auto& [name, tensor] : batch.tensors) {
    if (tensor.defined()) return tensor.device();
  }
  return c10::kCPU;
}

data::Batch on_host(const data::Batch& batch) {
  data::Batch copy = batch;
  for (auto& [name, tensor] : copy.tensors)
    if (tensor.defined()) tensor = tensor.cpu();
  return copy;
}

double weight_of(const Task& task, const data::Batch& batch) {
  if (!task.has_own_weights()) return static_cast<double>(batch.size());
  const double own = task.weight(batch);
  if (own >= 0 && std::isfinite(own)) return own;
  throw usage_error({.refused = concat("task ", task.name(), ": the weight of a batch"),
                     .rule = "a number of at least 0",
                     .value = shortest(own)});
}

std::shared_ptr<const data::Dataset> as_task_takes(const Task& task,
                                                   std::shared_ptr<const data::Dataset> dataset) {
  std::optional<data::Collate> own = task.collate();
  if (!own || !dataset) return dataset;
  return data::collated(std::move(dataset), *std::move(own));
}

void check_result(const Task& task, const StepResult& result, bool trains) {
  const at::Tensor& loss = result.loss;
  const bool is_scalar = loss.defined() && loss.numel() == 1;
  if (is_scalar && loss.is_complex())
    throw usage_error({.refused = concat("task ", task.name(), ": the loss of a step"),
                       .rule = "a real number",
                       .value = concat("a tensor of ", tensor::dtype_name(loss.scalar_type())),
                       .hint = "return its abs(), or another number that is to fall"});
  if (is_scalar && (!trains || loss.requires_grad())) return;
  throw usage_error(
      {.refused = concat("task ", task.name(), ": the loss of a step"),
       .rule = is_scalar ? "it depends on parameters that are trained" : "a tensor of one element",
       .value = !loss.defined() ? "none"
                : is_scalar     ? "a loss without gradient"
                                : concat("a tensor of shape ", loss.sizes()),
       .hint = is_scalar ? "was it detached, or made under NoGradGuard, or is all frozen?"
                         : "return the mean over the batch"});
}

namespace {

/// A value that came twice would count twice, and a weight below 0 take others' samples away.
void check_weight(const Task& task, const StepResult::Value& value, bool is_twice) {
  if (!is_twice && value.weight.value_or(0) >= 0 && std::isfinite(value.weight.value_or(0))) return;
  throw usage_error({.refused = concat("task ", task.name(), ": metric ", value.name),
                     .rule = is_twice ? "a step has one value of it" : "a weight of at least 0",
                     .value = is_twice ? "two" : shortest(*value.weight)});
}

}  // namespace

void add_to(StepSums& sums, const Task& task, const StepResult& result, double weight) {
  sums.add_loss(result.loss, weight);
  std::vector<bool> seen(sums.list().size());
  for (const StepResult::Value& value : result.values) {
    const std::vector<Metric>& list = sums.list();
    size_t at = 0;
    while (at < list.size() && list[at].name != value.name) ++at;
    const bool is_scalar = value.value.defined() && value.value.numel() == 1;
    const bool is_known = at < list.size() && list[at].formula == nullptr;
    if (!is_known || !is_scalar) {
      std::vector<std::string> known;
      for (const Metric& metric : list)
        if (metric.formula == nullptr) known.push_back(metric.name);
      throw usage_error(
          {.refused = concat("task ", task.name(), ": metric ", value.name),
           .rule = !is_scalar ? "a tensor of one element"
                              : "it is one of metrics() that steps report: " + join(known, ", "),
           .hint = is_scalar ? suggestion(value.name, known) : ""});
    }
    check_weight(task, value, seen[at]);
    seen[at] = true;
    sums.add(at, value.value, value.weight.value_or(weight));
  }
}

}  // namespace muster::train
