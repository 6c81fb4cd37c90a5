#include "muster/train/loop/evaluate.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "muster/data/loader/loader.h"
#include "muster/data/samplers/exact_cover.h"
#include "muster/train/metrics/loss.h"
#include "muster/train/metrics/scores.h"

namespace muster::train {
namespace {

Evaluation sum_over_ranks(const Evaluation& own, const distributed::ProcessGroup& group) {
  if (group.world_size() == 1) return own;
  at::Tensor sums = at::empty({4}, at::kDouble);
  double* field = sums.mutable_data_ptr<double>();
  field[0] = own.meter.loss_sum;
  field[1] = static_cast<double>(own.meter.correct);
  field[2] = static_cast<double>(own.meter.count);
  field[3] = static_cast<double>(own.in_top_k);
  sums = sums.to(group.device());
  group.all_reduce(sums);
  sums = sums.cpu();
  field = sums.mutable_data_ptr<double>();
  Evaluation all = own;
  all.meter = {field[0], static_cast<int64_t>(field[1]), static_cast<int64_t>(field[2])};
  all.in_top_k = static_cast<int64_t>(field[3]);
  if (all.confusion) {
    const at::Tensor counts = all.confusion->counts().to(group.device());
    group.all_reduce(counts);
    all.confusion->counts().copy_(counts);
  }
  return all;
}

}  // namespace

int64_t count_correct(const at::Tensor& scores, const at::Tensor& target) {
  return scores.argmax(1).eq(target).sum().item<int64_t>();
}

Evaluation evaluate(models::Classifier& model,
                    std::shared_ptr<const data::Dataset> dataset,
                    const distributed::ProcessGroup& group,
                    const EvaluateOptions& options,
                    const std::function<void(int64_t, int64_t, const Meter&)>& after_batch) {
  const c10::NoGradGuard no_grad;
  if (group.world_size() > 1) {
    for (const at::Tensor& buffer : model.buffers()) group.broadcast(buffer);
  }
  const bool was_training = model.is_training();
  model.eval();
  const int64_t samples = dataset->size();
  Evaluation own;
  if (options.confusion) {
    data::DataSpec spec = dataset->spec();
    if (spec.classes > 0) own.confusion.emplace(spec.classes, std::move(spec.class_names));
  }
  data::Loader loader(
      std::move(dataset),
      {.batch_size = options.batch_size, .workers = options.workers},
      std::make_unique<data::ExactCoverSampler>(
          samples,
          data::ExactCoverSamplerOptions{.world_size = group.world_size(), .rank = group.rank()}));
  int64_t done = 0;
  for (const data::Batch& batch : loader.epoch(0)) {
    at::Tensor scores, loss;
    {
      const PrecisionGuard guard(options.precision, batch.data.device());
      scores = scores_of(model, batch.data);
      loss = cross_entropy(scores, batch.target);
    }
    const at::Tensor predicted = scores.argmax(1);
    own.meter.add(
        loss.item<double>(), predicted.eq(batch.target).sum().item<int64_t>(), batch.size());
    if (options.top_k > 0) own.in_top_k += count_in_top_k(scores, batch.target, options.top_k);
    if (own.confusion) own.confusion->add(predicted, batch.target);
    if (after_batch) after_batch(++done, loader.batches_per_epoch(), own.meter);
  }
  model.train(was_training);
  return sum_over_ranks(own, group);
}

Evaluation evaluate_shown(models::Classifier& model,
                          const DatasetPtr& split,
                          const distributed::ProcessGroup& group,
                          const TrainPlan& plan,
                          const std::string& phase,
                          const std::function<void(int64_t, int64_t, const Meter&)>& show) {
  const bool alone = group.world_size() == 1;
  int64_t all = 0;
  Evaluation seen = evaluate(model,
                             split,
                             group,
                             {.workers = plan.options.workers,
                              .top_k = plan.options.top_k,
                              .precision = plan.precision.kind,
                              .confusion = phase == "test"},
                             [&](int64_t done, int64_t batches, const Meter& own) {
                               all = batches;
                               if (done < batches) show(done, batches, alone ? own : Meter{});
                             });
  if (all > 0) show(all, all, seen.meter);
  return seen;
}

}  // namespace muster::train
