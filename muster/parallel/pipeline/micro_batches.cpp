#include "muster/parallel/pipeline/micro_batches.h"

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {
namespace {

bool has_rows(const at::Tensor& tensor) { return tensor.defined() && tensor.dim() > 0; }

int64_t rows_of_batch(const Tensors& inputs, const Tensors& targets) {
  const at::Tensor* first = nullptr;
  for (const Tensors* tensors : {&inputs, &targets}) {
    for (const at::Tensor& tensor : *tensors) {
      if (!has_rows(tensor)) continue;
      if (first == nullptr) first = &tensor;
      if (tensor.size(0) == first->size(0)) continue;
      throw usage_error({.refused = "a batch",
                         .rule = "its tensors have as many rows (dimension 0) as each other",
                         .value = concat(first->sizes(), " and ", tensor.sizes())});
    }
  }
  if (first == nullptr || first->size(0) == 0)
    throw usage_error({.refused = "an empty batch",
                       .rule = "a batch has a tensor with a row at least",
                       .value = first ? concat(first->sizes()) : "no tensor with rows"});
  return first->size(0);
}

Tensors rows_of(const Tensors& tensors, int64_t from, int64_t count) {
  Tensors rows;
  for (const at::Tensor& tensor : tensors)
    rows.push_back(has_rows(tensor) ? tensor.narrow(0, from, count) : tensor);
  return rows;
}

}  // namespace

std::vector<int64_t> rows_of_micro_batches(int64_t rows, int64_t parts) {
  const int64_t count = std::max<int64_t>(1, std::min(rows, parts));
  std::vector<int64_t> lengths(static_cast<size_t>(count), rows / count);
  for (int64_t i = 0; i < rows % count; ++i) ++lengths[static_cast<size_t>(i)];
  return lengths;
}

std::vector<MicroBatch> cut_batch(const Tensors& inputs, const Tensors& targets, int64_t parts) {
  std::vector<MicroBatch> batches;
  int64_t from = 0;
  for (const int64_t rows : rows_of_micro_batches(rows_of_batch(inputs, targets), parts)) {
    batches.push_back(
        {rows_of(inputs, from, rows), rows_of(targets, from, rows), static_cast<double>(rows)});
    from += rows;
  }
  return batches;
}

std::vector<double> weights_of(const std::vector<MicroBatch>& batches, LossReduction reduction) {
  if (reduction == LossReduction::kSum) return std::vector<double>(batches.size(), 1.0);
  double all = 0;
  for (const MicroBatch& batch : batches) {
    if (!(batch.count >= 0) || !std::isfinite(batch.count))
      throw usage_error(
          {.refused = "a micro-batch",
           .rule = "what its loss is a mean of is counted by a finite number, at least 0",
           .value = concat("count ", batch.count)});
    all += batch.count;
  }
  if (!(all > 0) || !std::isfinite(all))
    throw usage_error({.refused = "micro-batches",
                       .rule = "their counts together are above 0 and finite",
                       .value = concat(all)});
  std::vector<double> weights;
  for (const MicroBatch& batch : batches) weights.push_back(batch.count / all);
  return weights;
}

}  // namespace muster::parallel
