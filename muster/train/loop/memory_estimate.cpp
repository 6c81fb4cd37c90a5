#include "muster/train/loop/memory_estimate.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/nn/module.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/memory/estimate/cpu_scratch.h"
#include "muster/memory/estimate/estimate.h"
#include "muster/optim/clip.h"
#include "muster/tensor/batch_norm.h"
#include "muster/tensor/device/math_modes.h"
#include "muster/train/device/rank_device.h"
#include "muster/train/loop/parameter_groups.h"
#include "muster/train/loop/start_checks.h"
#include "muster/train/loop/task_parts.h"
#include "muster/train/replicas/strategy.h"
#include "muster/train/task/step.h"

namespace muster::train {
namespace {

/// Two samples, as a batch of `rows` without elements.
data::Batch stretched(const data::Batch& two,
                      const data::DataSpec& spec,
                      int64_t rows,
                      std::optional<c10::ScalarType> floats,
                      bool channels_last) {
  data::Batch batch;
  for (const auto& [name, tensor] : two.tensors) {
    std::vector<int64_t> sizes = tensor.sizes().vec();
    if (!sizes.empty()) sizes[0] = rows;
    if (spec.is_tokens() && name == "data" && sizes.size() == 2)
      sizes[1] = std::max(sizes[1], spec.width());
    const bool is_cast = floats && tensor.scalar_type() == at::kFloat;
    const auto format = channels_last && sizes.size() == 4 ? c10::MemoryFormat::ChannelsLast
                                                           : c10::MemoryFormat::Contiguous;
    batch.tensors.emplace_back(
        name,
        at::empty(
            sizes, at::device(c10::kMeta).dtype(is_cast ? *floats : tensor.scalar_type()), format));
  }
  batch.indices.resize(static_cast<size_t>(rows));
  return batch;
}

/// Of a rank's largest batch: a batch of more samples than there are has them all.
int64_t rows_at_most(const FitPlan& plan, int64_t samples) {
  const int64_t replicas = std::max<int64_t>(1, plan.world_size / plan.ranks_per_replica);
  const int64_t share = samples / replicas + (samples % replicas != 0 ? 1 : 0);
  return std::max<int64_t>(1, std::min(plan.batch_per_rank, share));
}

/// One rank's training on meta.
class RunOnMeta {
 public:
  RunOnMeta(std::unique_ptr<Task> task, const FitData& data, const FitPlan& plan)
      : plan_(plan), task_(std::move(task)), groups_(*task_, plan.options) {
    torch::nn::Module& module = *task_->module();
    if (plan.options.channels_last) tensor::to_channels_last(module);
    const auto samples = as_task_takes(*task_, data.train);
    const data::Batch two = stand_in_batch(*samples);
    memory::move_to_meta(module);
    for (const TaskPart& part : parts_to_train(*task_, plan)) add_part(part);
    if (plan.options.ema_decay > 0) add_average(module);
    const bool is_late = !plan.devices[0].is_cpu();  // the next batch is on its way, then
    for (int i = 0; i < (is_late ? 2 : 1); ++i)
      batches_.push_back(stretched(two,
                                   samples->spec(),
                                   rows_at_most(plan, samples->size()),
                                   input_dtype_of(module),
                                   plan.options.channels_last));
    groups_.train_mode();
  }

  void step() {
    const tensor::SharedBatches shared(plan_.options.sync_batch_norm && plan_.world_size > 1);
    for (size_t index = 0; index < parts_.size(); ++index) {
      Part& part = parts_[index];
      turn(index);
      part.optimizer->zero_grad();
      put_buckets(part);
      constexpr int64_t kAlike = 2;  // the third batch of a step takes what the second takes
      for (int64_t i = 0; i < std::min(kAlike, plan_.options.accumulate_grad_batches); ++i) {
        const StepResult result = task_->train_step(batches_[0], {.part = index});
        check_result(*task_, result, /*trains=*/true);
        result.loss.backward();
      }
      // By value it takes no memory.
      if (plan_.options.gradient_clip_val > 0 && plan_.options.gradient_clip_algorithm == "norm")
        optim::clip_grad_norm(part.module->parameters(), plan_.options.gradient_clip_val);
      part.optimizer->step();
    }
  }
  std::shared_ptr<torch::nn::Module> module() const { return task_->module(); }
  std::vector<at::Tensor> state() const {
    std::vector<at::Tensor> all;
    for (const Part& part : parts_)
      for (const auto& [name, tensor] : part.optimizer->state()) all.push_back(tensor);
    return all;
  }
  std::vector<at::Tensor> inputs() const {
    std::vector<at::Tensor> all;
    for (const data::Batch& batch : batches_)
      for (const auto& [name, tensor] : batch.tensors) all.push_back(tensor);
    return all;
  }

 private:
  struct Part {
    std::shared_ptr<torch::nn::Module> module;
    std::unique_ptr<optim::Optimizer> optimizer;
    std::vector<at::Tensor> trained, buckets;  // of each parameter that is trained
  };

  void add_part(const TaskPart& from) {
    Part& part = parts_.emplace_back();
    part.module = from.module;
    tensor::NamedTensorList parameters;
    for (const auto& item : from.module->named_parameters()) {
      parameters.emplace_back(item.key(), item.value());
      if (item.value().requires_grad()) part.trained.push_back(item.value());
    }
    part.optimizer =
        make_optimizer(plan_, groups_.rules_of(*from.module, from.name), std::move(parameters));
    set_most_momentum(plan_, *part.optimizer);
    if (plan_.world_size == 1) return;
    for (const at::Tensor& parameter : part.trained)
      part.buckets.push_back(at::empty_like(parameter.detach()));
  }

  /// One more copy.
  void add_average(const torch::nn::Module& module) {
    for (const at::Tensor& parameter : module.parameters())
      average_.push_back(at::empty_like(parameter.detach()));
    if (plan_.options.ema_buffers != "average") return;
    for (const at::Tensor& buffer : module.buffers()) average_.push_back(at::empty_like(buffer));
  }

  /// Gradients are sums into what is there already.
  static void put_buckets(Part& part) {
    for (size_t i = 0; i < part.buckets.size(); ++i)
      part.trained[i].mutable_grad() = part.buckets[i];
  }

  void turn(size_t own) {
    if (parts_.size() == 1) return;
    for (size_t other = 0; other < parts_.size(); ++other)
      for (at::Tensor& parameter : parts_[other].trained)
        if (other != own) parameter.set_requires_grad(false);
    for (at::Tensor& parameter : parts_[own].trained) parameter.set_requires_grad(true);
  }

  const FitPlan& plan_;
  std::unique_ptr<Task> task_;
  ParameterGroups groups_;
  std::vector<Part> parts_;
  std::vector<data::Batch> batches_;
  std::vector<at::Tensor> average_;
};

/// Why there is no estimate, or "".
std::string why_not(const FitPlan& plan) {
  if (!plan.options.batch_size.search.empty()) return "the batch size is searched";
  if (plan.precision.kind != Precision::kFloat32)
    return concat("what --precision ", plan.options.precision, " casts depends on the device");
  return "";
}

/// What is left out, or counted where it is spared.
std::string caveats(const FitPlan& plan) {
  std::vector<std::string> all;
  const StrategyEntry& strategy = strategies().at(plan.strategy_name);
  if (strategy.divides_model)
    all.push_back(concat("of a rank with the whole model, which ", strategy.name, " divides"));
  if (plan.world_size > 1) all.emplace_back("without what ranks send each other");
  if (plan.options.activation_checkpointing != "off")
    all.emplace_back("with all activations, which are fewer where parts run again");
  const c10::Device device = plan.devices[0];
  if (device.is_cuda()) all.emplace_back("without the device's context");
  if (device.is_cpu() && !memory::is_cpu_scratch_known())
    all.emplace_back("convolutions' scratch is guessed on this processor");
  if (!device.is_cpu() && !device.is_cuda())
    all.emplace_back("by the CPU's operators, of which this device may have others");
  return join(all, "; ");
}

}  // namespace

std::string memory_outlook(std::unique_ptr<Task> task, const FitData& data, const FitPlan& plan) {
  if (const std::string why = why_not(plan); !why.empty()) return "not estimated: " + why;
  try {
    const memory::PeakEstimate found = memory::estimate_peak(
        [&] {
          const auto run = std::make_shared<RunOnMeta>(std::move(task), data, plan);
          return memory::MetaStep{.module = run->module(),
                                  .run = [run] { run->step(); },
                                  .optimizer_state = [run] { return run->state(); },
                                  .inputs = run->inputs()};
        },
        {.cpu_scratch = !plan.devices[0].is_cuda()});
    const std::string besides = caveats(plan);
    return concat(plan.world_size > 1 ? "per rank " : "",
                  memory::text_of(found),
                  besides.empty() ? "" : "; ",
                  besides);
  } catch (const memory::NotOnMeta& error) {
    return concat("not estimated: ",
                  error.op(),
                  " does not run on meta: ",
                  error.text().value,
                  plan.devices[0].is_cpu() ? "" : "; --batch-size auto measures it");
  } catch (const std::exception& error) {
    // The run is to say it, if it meets it.
    const std::string_view words = error.what();
    return concat("not estimated: ", first_line(words));
  }
}

}  // namespace muster::train
