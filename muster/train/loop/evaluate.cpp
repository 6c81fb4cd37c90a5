#include "muster/train/loop/evaluate.h"

#include <limits>
#include <utility>

#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include "muster/data/loader/loader.h"
#include "muster/data/samplers/exact_cover.h"
#include "muster/train/loop/evaluation_mode.h"
#include "muster/train/task/step.h"

namespace muster::train {
namespace {

Meter sum_over_ranks(const Meter& own, const distributed::ProcessGroup& group) {
  if (group.world_size() == 1) return own;
  const at::Tensor sums = at::tensor(own.sums(), at::kDouble).to(group.device());
  group.all_reduce(sums);
  at::Tensor maxima;
  if (own.has_extremes()) {
    maxima = at::tensor(own.maxima(), at::kDouble).to(group.device());
    group.all_reduce(maxima, c10d::ReduceOp::MAX);
    maxima = maxima.cpu();
  }
  Meter all = own;
  all.take(sums.cpu().const_data_ptr<double>(),
           maxima.defined() ? maxima.const_data_ptr<double>() : nullptr);
  return all;
}

}  // namespace

Evaluation evaluate(Task& task,
                    std::shared_ptr<const data::Dataset> dataset,
                    const distributed::ProcessGroup& group,
                    const EvaluateOptions& options,
                    const AfterBatch& after_batch) {
  const c10::NoGradGuard no_grad;
  dataset = as_task_takes(task, std::move(dataset));
  const EvaluationMode mode(*task.module(), group);
  const int64_t samples = dataset->size();
  Meter own(std::make_shared<const std::vector<Metric>>(task.metrics()));
  task.begin_evaluation(options.phase, dataset->spec());
  // The order is nobody's business here, so data that has a cheap one is read in that.
  std::shared_ptr<const data::Sampler> sampler = dataset->own_sampler(
      {.world_size = group.world_size(), .rank = group.rank(), .shuffle = false});
  if (!sampler) {
    sampler = std::make_shared<data::ExactCoverSampler>(
        samples,
        data::ExactCoverSamplerOptions{.world_size = group.world_size(), .rank = group.rank()});
  }
  data::Loader loader(std::move(dataset),
                      {.batch_size = options.batch_size, .workers = options.workers},
                      std::move(sampler));
  const StepContext context{.phase = options.phase, .step = options.step, .epoch = options.epoch};
  int64_t done = 0;
  for (const data::Batch& batch : loader.epoch(0)) {
    StepResult result;
    {
      const c10::InferenceMode inference(task.evaluates_in_inference_mode());
      const PrecisionGuard guard(options.precision, device_of(batch));
      result = task.evaluate_step(batch, context);
    }
    check_result(task, result, /*trains=*/false);
    add_to(own, task, result, weight_of(task, batch));
    if (after_batch) after_batch(++done, loader.batches_per_epoch(), own);
  }
  task.end_evaluation(options.phase, group);
  const Meter all = sum_over_ranks(own, group);
  Evaluation seen{.metrics = all.metrics(), .weight = all.weight()};
  if (options.phase == Phase::kTest) seen.report = task.report();
  return seen;
}

Evaluation evaluate_shown(
    Task& task,
    const std::shared_ptr<const data::Dataset>& dataset,
    const distributed::ProcessGroup& group,
    const EvaluateOptions& options,
    const std::function<void(int64_t done, int64_t batches, const Metrics& all)>& show) {
  const bool alone = group.world_size() == 1;
  int64_t all = 0;
  Evaluation seen =
      evaluate(task, dataset, group, options, [&](int64_t done, int64_t batches, const Meter& own) {
        all = batches;
        if (done < batches) show(done, batches, alone ? own.metrics() : Metrics{});
      });
  if (all > 0) show(all, all, seen.metrics);
  return seen;
}

}  // namespace muster::train
