// What is trained: a module, its loss, its metrics. All else is fit()'s.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "muster/base/json.h"
#include "muster/data/collate.h"
#include "muster/data/dataset.h"
#include "muster/distributed/process_group.h"
#include "muster/tensor/named_tensors.h"
#include "muster/train/metrics/confusion_matrix.h"
#include "muster/train/metrics/metric.h"

namespace muster::train {

enum class Phase { kTrain, kValidate, kTest };

/// "train", "validate" or "test".
std::string_view name_of(Phase phase);

/// Where a step is.
struct StepContext {
  Phase phase = Phase::kTrain;
  size_t part = 0;    ///< whose optimizer will step; see Task::parts
  int64_t step = 0;   ///< optimizer steps finished so far
  int64_t epoch = 0;  ///< 0-based
};

/// What a step found in one batch, on one rank.
struct StepResult {
  /// A task's metric of the batch.
  struct Value {
    std::string name;  ///< of Task::metrics()
    /// A scalar of any dtype: for kMean and kSum the sum over the batch, not its mean. Without
    /// gradient.
    at::Tensor value;
    /// The samples that the value is of; the batch's if not said.
    std::optional<double> weight;
  };

  /// The mean over the batch's samples (or what Task::weight says), a scalar.
  at::Tensor loss;
  std::vector<Value> values;
};

/// So that DistributedDataParallel finds what backward starts from.
template <class Visit>
void for_each_tensor(StepResult& result, Visit&& visit) {
  visit(result.loss);
}

/// A part of the task that has an optimizer of its own.
struct TaskPart {
  std::string name;  ///< "generator"; empty if it is the only one
  std::shared_ptr<torch::nn::Module> module;
};

/// Parameters that are trained otherwise than the rest: fine-tuning, say, of an old part with a
/// tenth of the rate.
struct ParameterGroup {
  std::string name;                    ///< "backbone": for people
  std::vector<at::Tensor> parameters;  ///< of module(); each is in one group at most
  double lr_factor = 1;                ///< of the run's rate, whatever the schedule makes of it
  std::optional<double> weight_decay;  ///< the optimizer's own if not said
  bool frozen = false;                 ///< as by --freeze: not trained at all
};

/// What a task has to show at a run's end, besides its metrics.
struct TaskReport {
  std::vector<std::pair<std::string, std::string>> lines;  ///< {"macro F1", "0.8712"}
  std::optional<ConfusionMatrix> confusion;
};

/// One training's own part, on each rank. Derive, and give it to fit(): loop, strategies, precision,
/// accumulation, schedules, checkpoints that resume exactly, files, pages and progress are there
/// for any task.
///
///     class Regression final : public muster::train::Task {
///      public:
///       std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
///       muster::train::StepResult train_step(const muster::data::Batch& batch,
///                                            const muster::train::StepContext&) override {
///         return {torch::mse_loss(net_(batch["data"]), batch["target"])};
///       }
///
///      private:
///       torch::nn::Linear net_{8, 1};
///     };
///
/// Every member is called by the rank's own thread, and alike on all ranks; none may make a
/// collective but where it says so.
class Task {
 public:
  virtual ~Task() = default;

  /// "regression": for titles, and for the check that a checkpoint is of the same task.
  virtual std::string name() const { return "task"; }

  /// What is trained and saved; the same object each time.
  virtual std::shared_ptr<torch::nn::Module> module() = 0;

  /// From now on all steps are on this device: batches, and the generator of set_generator(). Called
  /// once, before anything is trained, where it is not the CPU. The default moves module(); override
  /// it, and call that, for tensors that are not the module's. Under a strategy that spreads the
  /// module's units over devices (fsdp, pipeline) their tensors have no elements meanwhile.
  virtual void move_to(c10::Device device);

  /// For optimizers of their own (a GAN): parts of module(), disjoint, in the order in which they
  /// step. For each part train_step() is called with the same batch; while it is the turn of one,
  /// the parameters of the others do not require gradients. Empty: one optimizer for all.
  virtual std::vector<TaskPart> parts() { return {}; }

  /// Parameters with a rate or a weight decay of their own, or frozen ones; asked once, after the
  /// module is made, and alike on all ranks. What is in no group is trained as the options say. A
  /// checkpoint of a run with other groups is refused.
  virtual std::vector<ParameterGroup> parameter_groups() { return {}; }

  /// The metrics that steps may report, beside the loss.
  virtual std::vector<Metric> metrics() const { return {}; }

  /// Forward and loss of a batch, through the module. Under the run's precision; the module is in
  /// training mode. A rank that has no samples left in a step is given some other batch, whose
  /// result counts nothing, so that all ranks take part in the collectives.
  virtual StepResult train_step(const data::Batch& batch, const StepContext& context) = 0;

  /// The same for validation and test: the module is in evaluation mode, and there are no
  /// gradients.
  virtual StepResult evaluate_step(const data::Batch& batch, const StepContext& context) {
    return train_step(batch, context);
  }

  /// What is said of samples that have no target: tensors by name, each with a row per sample. As
  /// evaluate_step() otherwise. The default refuses: a usage error that names the task.
  virtual tensor::NamedTensorList predict_step(const data::Batch& batch,
                                               const StepContext& context);

  /// What the loss of `batch`, as the loader has it on the CPU, is a mean over. Override both where
  /// that is not its samples: the tokens that are no padding, say. The gradient of a step is then the
  /// mean over all of them on all ranks, which sum up their weights before the first forward of a
  /// step.
  virtual double weight(const data::Batch& batch) const {
    return static_cast<double>(batch.size());
  }
  virtual bool has_own_weights() const { return false; }

  /// An evaluation begins; all of its steps come next, then end_evaluation(), where a task may sum
  /// over the ranks what it gathered itself.
  virtual void begin_evaluation(Phase /*phase*/, const data::DataSpec& /*spec*/) {}
  virtual void end_evaluation(Phase /*phase*/, const distributed::ProcessGroup& /*group*/) {}
  /// After the test.
  virtual TaskReport report() { return {}; }

  /// What the module draws while it trains (dropout) is to come from this generator, one of the
  /// device that the steps are on. True if it will; false where it is torch's default one, which
  /// ranks that are threads share, so that their numbers differ from run to run.
  virtual bool set_generator(const at::Generator& /*generator*/) { return false; }

  /// The batch, in host memory, as the page and TensorBoard may show it // [N, C, H, W] float32, or
  /// nothing.
  virtual at::Tensor images(const data::Batch& /*batch*/) const { return {}; }

  /// How samples become the batches that this task takes, where the dataset's own way will not do.
  virtual std::optional<data::Collate> collate() const { return std::nullopt; }

  /// Whether evaluate_step() and predict_step() run in c10::InferenceMode, which spares autograd's
  /// bookkeeping. What they make cannot take part in a training step later: say false where the
  /// module keeps a tensor that it has made there.
  virtual bool evaluates_in_inference_mode() const { return true; }

  /// What else a checkpoint needs to go on exactly: an object.
  virtual Json state() const { return Json::object(); }
  virtual void load_state(const Json& /*state*/) {}
};

/// Makes a rank's task. The seed of torch's default generator is set before, alike on all ranks, and
/// ranks that are threads make theirs one after the other.
using TaskMaker = std::function<std::unique_ptr<Task>()>;

}  // namespace muster::train
