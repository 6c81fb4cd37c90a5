#include "muster/train/loop/predict.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include "muster/base/counted.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/loader/device_batches.h"
#include "muster/data/samplers/exact_cover.h"
#include "muster/tensor/dtype_name.h"
#include "muster/train/device/out_of_memory.h"
#include "muster/train/device/rank_device.h"
#include "muster/train/loop/evaluation_mode.h"
#include "muster/train/loop/task_words.h"
#include "muster/train/task/step.h"

namespace muster::train {
namespace {

/// One rank's answers to a batch.
class Answers {
 public:
  Answers(Task& task, const EvaluateOptions& options) : task_(task), options_(options) {}

  tensor::NamedTensorList operator()(const data::Batch& batch) const {
    const c10::InferenceMode inference(task_.evaluates_in_inference_mode());
    const PrecisionGuard guard(options_.precision, device_of(batch));
    tensor::NamedTensorList answers = task_.predict_step(
        batch, {.phase = options_.phase, .step = options_.step, .epoch = options_.epoch});
    if (answers.empty()) {
      throw usage_error({.refused = concat("task ", task_.name()),
                         .rule = "its predict_step() gives at least one tensor"});
    }
    std::set<std::string_view> names;
    for (auto& [name, tensor] : answers) {
      if (!names.insert(name).second)
        throw usage_error({.refused = concat("task ", task_.name(), ": prediction ", name),
                           .rule = "each name is there once",
                           .value = "two"});
      if (tensor.dim() < 1 || tensor.size(0) != batch.size()) {
        throw usage_error({.refused = concat("task ", task_.name(), ": prediction ", name),
                           .rule = concat("one row for each of the ",
                                          counted(batch.size(), "sample"),
                                          " of its batch, those that fill it up among them"),
                           .value = concat(tensor.sizes())});
      }
    }
    return answers;
  }

 private:
  Task& task_;
  const EvaluateOptions& options_;
};

/// "class int64 [], scores float32 [10]": what must be alike.
std::string form_of(const tensor::NamedTensorList& answers) {
  std::vector<std::string> parts;
  for (const auto& [name, tensor] : answers)
    parts.push_back(
        concat(name, ' ', tensor::dtype_name(tensor.scalar_type()), ' ', tensor.sizes().slice(1)));
  return join(parts, ", ");
}

void check_form(const Task& task, const std::string& form, const std::string& first) {
  if (form == first) return;
  throw usage_error({.refused = concat("task ", task.name(), ": its predictions"),
                     .rule = concat("alike for all batches and ranks: ", first),
                     .value = form});
}

/// Samples of each forward. A product of matrices computes rows in blocks, and rounds those behind the
/// last whole block otherwise: what is said of a sample would hang on its place in the batch, which is
/// another one on another number of ranks. Small batches, asked for where memory is short, stay small.
int64_t rows_per_forward(int64_t batch_size, int64_t samples) {
  constexpr int64_t kBlock = 16;
  if (batch_size < kBlock) return batch_size;
  return (std::min(batch_size, samples) + kBlock - 1) / kBlock * kBlock;
}

/// The batch with its last sample again and again, up to so many.
data::Batch filled(data::Batch batch, int64_t samples) {
  const int64_t own = batch.size();
  if (own == samples) return batch;
  for (const auto& [name, tensor] : batch.tensors) {
    if (tensor.dim() < 1 || tensor.size(0) != own) return batch;
  }
  const at::Tensor rows = at::arange(samples).clamp_max(own - 1);
  for (auto& [name, tensor] : batch.tensors)
    tensor = tensor.index_select(0, rows.to(tensor.device()));
  batch.indices.resize(samples, batch.indices.back());
  return batch;
}

/// Rows of all ranks as the dataset has them: rank r's row i is sample r + i * ranks of the round.
at::Tensor in_order(const at::Tensor& by_rank, int64_t samples) {
  return by_rank.transpose(0, 1).flatten(0, 1).slice(0, 0, samples).cpu();
}

}  // namespace

void predict(Task& task,
             std::shared_ptr<const data::Dataset> dataset,
             const distributed::ProcessGroup& group,
             const EvaluateOptions& options,
             const std::function<void(const PredictedRows&)>& on_rows) {
  const int64_t samples = dataset->size(), ranks = group.world_size();
  if (samples == 0) return;
  const c10::NoGradGuard no_grad;
  const EvaluationMode mode(*task.module(), group);
  const Answers answers(task, options);
  dataset = as_task_takes(task, std::move(dataset));
  // Where samples are put together one by one a tensor's rows may be none of theirs (ragged lists).
  const bool fills = !dataset->is_by_sample();
  // A rank may have no sample at all, and none in the last round.
  const std::vector<int64_t> some{0};
  const c10::Device device = device_of(*task.module());
  const auto in_words = [&](const auto& action) {
    return with_memory_words(device, "in a prediction", options.memory_hint, action);
  };
  const auto when = [] { return "prediction"; };
  const auto own_code = [&](std::string_view what, const auto& work) {
    return in_words([&] { return of_task(group, &task, what, when, work); });
  };
  data::DeviceBatches batches(device);
  batches.cast_floats(input_dtype_of(*task.module()));
  const data::Batch one = own_code("the samples", [&] { return dataset->get(some); });
  const tensor::NamedTensorList example =
      own_code("predict_step", [&] { return answers(batches.place(one)); });
  const std::string form = form_of(example);
  for (const std::string& other : group.all_gather_text(form)) check_form(task, other, form);

  data::Loader loader(
      std::move(dataset),
      {.batch_size = options.batch_size, .workers = options.workers, .device = device},
      std::make_unique<data::ExactCoverSampler>(
          samples, data::ExactCoverSamplerOptions{.world_size = ranks, .rank = group.rank()}));
  batches.begin(loader.epoch(0));
  const int64_t per_forward = rows_per_forward(options.batch_size, samples);
  for (int64_t first = 0; first < samples;) {
    const int64_t here = std::min(options.batch_size * ranks, samples - first);
    const int64_t rows = (here + ranks - 1) / ranks;  // of the ranks that have most
    const auto next = own_code("the samples", [&] { return batches.next(); });
    const data::Batch* const batch = next ? &next->batch : nullptr;
    tensor::NamedTensorList own;
    if (batch != nullptr) {
      own = own_code("predict_step",
                     [&] { return answers(fills ? filled(*batch, per_forward) : *batch); });
    }
    if (batch != nullptr) check_form(task, form_of(own), form);
    PredictedRows all{.first = first};
    for (size_t i = 0; i < example.size(); ++i) {
      std::vector<int64_t> shape = example[i].second.sizes().vec();
      shape[0] = rows;
      at::Tensor padded = at::zeros(shape, example[i].second.options().device(group.device()));
      if (batch != nullptr)
        padded.slice(0, 0, batch->size()).copy_(own[i].second.slice(0, 0, batch->size()));
      const at::Tensor gathered = ranks > 1 ? group.all_gather(padded) : padded.unsqueeze(0);
      if (group.rank() == 0) all.columns.emplace_back(example[i].first, in_order(gathered, here));
    }
    if (group.rank() == 0) on_rows(all);
    first += here;
  }
}

}  // namespace muster::train
