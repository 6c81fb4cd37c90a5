#include "muster/train/loop/evaluate.h"

#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include "muster/base/error.h"
#include "muster/data/loader/device_batches.h"
#include "muster/data/samplers/exact_cover.h"
#include "muster/memory/guard/oom.h"
#include "muster/tensor/device/host_copy.h"
#include "muster/train/device/out_of_memory.h"
#include "muster/train/device/rank_device.h"
#include "muster/train/loop/evaluation_mode.h"
#include "muster/train/loop/task_parts.h"
#include "muster/train/loop/task_words.h"
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
  all.set_sums(sums.cpu().const_data_ptr<double>(),
               maxima.defined() ? maxima.const_data_ptr<double>() : nullptr);
  return all;
}

/// Of all ranks, the most batches.
int64_t most_batches(int64_t own, const distributed::ProcessGroup& group) {
  const at::Tensor most = at::tensor({own}, at::kLong).to(group.device());
  if (group.world_size() > 1) group.all_reduce(most, c10d::ReduceOp::MAX);
  return most.item<int64_t>();
}

/// Tells the sums behind each batch, on a device when the next batch is queued.
class SumsShown {
 public:
  SumsShown(int64_t batches, const AfterBatch& show) : batches_(batches), show_(show) {}

  void after_batch(const StepSums& sums) {
    if (!show_) return;
    if (sums.device().is_cpu()) return show_(++done_, batches_, sums.on_host());
    end();
    coming_.emplace(sums.on_host(), tensor::HostCopy(sums.values()));
  }
  void end() {
    if (!coming_) return;
    show_(++done_, batches_, StepSums::joined(coming_->first, coming_->second.wait()));
    coming_.reset();
  }

 private:
  int64_t batches_;
  const AfterBatch& show_;
  int64_t done_ = 0;
  std::optional<std::pair<Meter, tensor::HostCopy>> coming_;
};

}  // namespace

Evaluation evaluate(Task& task,
                    std::shared_ptr<const data::Dataset> dataset,
                    const distributed::ProcessGroup& group,
                    const EvaluateOptions& options,
                    const AfterBatch& after_batch) {
  const c10::NoGradGuard no_grad;
  dataset = as_task_takes(task, std::move(dataset));
  const EvaluationMode mode(*task.module(), group, options.strategy);
  const int64_t samples = dataset->size();
  const c10::Device device = options.device.value_or(device_of(*task.module()));
  StepSums own(std::make_shared<const std::vector<Metric>>(task.metrics()), device);
  const auto when = [&] { return when_of(options.phase, options.step); };
  const auto own_code = [&](std::string_view what, const auto& work) {
    return of_task(group, &task, what, when, work);
  };
  own_code("begin_evaluation", [&] { task.begin_evaluation(options.phase, dataset->spec()); });
  // The order is nobody's business here, so data that has a cheap one is read in that.
  const auto ranks_per_replica = static_cast<int>(options.ranks_per_replica);
  const int replicas = group.world_size() / ranks_per_replica;
  const int replica = group.rank() / ranks_per_replica;
  std::shared_ptr<const data::Sampler> sampler =
      dataset->own_sampler({.world_size = replicas, .rank = replica, .shuffle = false});
  if (!sampler) {
    sampler = std::make_shared<data::ExactCoverSampler>(
        samples, data::ExactCoverSamplerOptions{.world_size = replicas, .rank = replica});
  }
  data::Loader loader(dataset,
                      {.batch_size = options.batch_size,
                       .workers = options.workers,
                       .device = device,
                       .timeout_s = options.loader_timeout_s},
                      std::move(sampler));
  const StepContext context{.phase = options.phase, .step = options.step, .epoch = options.epoch};
  data::DeviceBatches batches(device);
  batches.cast_floats(input_dtype_of(*task.module()));
  batches.begin(loader.epoch(0));
  SumsShown shown(loader.batches_per_epoch(), after_batch);
  Strategy* sharded = options.strategy != nullptr && options.strategy->shards_weights()
                          ? options.strategy
                          : nullptr;
  int64_t left = sharded != nullptr ? most_batches(loader.batches_per_epoch(), group) : 0;
  const auto in_words = [&](const auto& action) {
    try {
      return action();
    } catch (...) {
      if (!memory::is_oom(std::current_exception())) throw;
      rethrow_in_memory_words(
          device,
          concat("in the ", when_of(options.phase, options.step)),
          concat(options.memory_hint, options.more_on_memory ? options.more_on_memory() : ""));
    }
  };
  const auto pass = [&](const data::Batch& piece) {
    return own_code("evaluate_step", [&] { return task.evaluate_step(piece, context); });
  };
  /// Of batches on the device.
  const auto weight = [&](const data::Batch& piece) {
    return weight_of(task, task.has_own_weights() ? on_host(piece) : piece);
  };
  const auto guarded = [&](const data::Batch& batch, const auto& action) {
    return in_words([&] {
      const c10::InferenceMode inference(task.evaluates_in_inference_mode());
      const PrecisionGuard guard(options.precision, device_of(batch));
      return action();
    });
  };
  const auto next_batch = [&] { return own_code("the samples", [&] { return batches.next(); }); };
  while (const auto next = in_words(next_batch)) {
    const std::vector<WeighedResult> seen =
        guarded(next->batch, [&]() -> std::vector<WeighedResult> {
          if (sharded == nullptr) return {{pass(next->batch), weight_of(task, next->on_host())}};
          return sharded->evaluate({.batch = next->batch, .pass = pass, .weight = weight});
        });
    --left;
    own_code("evaluate_step", [&] {
      for (const auto& [result, of_result] : seen) {
        check_result(task, result, /*trains=*/false);
        add_to(own, task, result, of_result);
      }
    });
    shown.after_batch(own);
  }
  for (; left > 0; --left) {
    const data::Batch batch = batches.place(stand_in_batch(*dataset));
    guarded(batch, [&] {
      sharded->stand_aside({.batch = batch, .pass = pass, .weight = weight});
      return 0;
    });
  }
  shown.end();
  try {
    task.end_evaluation(options.phase, group);
  } catch (
      const Error&) {  // a collective of it may have ended for another rank's failure, and says so
    throw;
  } catch (...) {
    rethrow_of_task(group, {.task = task.name(), .what = "end_evaluation", .when = when()});
  }
  const Meter all = sum_over_ranks(own.read(), group);
  Evaluation seen{.metrics = own_code("the metrics", [&] { return all.metrics(); }),
                  .weight = all.weight()};
  if (options.phase == Phase::kTest)
    seen.report = own_code("report", [&] { return task.report(); });
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
