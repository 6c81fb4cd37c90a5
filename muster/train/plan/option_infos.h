// Each option of a training run by its name: one list for flags, help, files, and what resumes keep.
#pragma once

#include <string_view>
#include <type_traits>

#include "muster/train/plan/options.h"

namespace muster::train {

/// What a resumed run may say anew.
enum class OnResume {
  kFixed,  ///< shapes the numbers: as it was, or the resume is refused
  kFree    ///< as it was unless it is said now
};

struct OptionInfo {
  std::string_view name;   ///< as in config.json; the flag has hyphens for its underscores
  std::string_view value;  ///< its kind in help: "N", "DIR", …; "last|best": these words
  std::string_view help;
  OnResume on_resume = OnResume::kFree;
  bool show_default = true;  ///< false: the help text says what happens if it is not given
};

/// Calls visit(info, member) for each of them.
template <class Flags, class Visitor>
void visit_run_flags(Flags& flags, Visitor&& visit) {
  using enum OnResume;
  visit(OptionInfo{"output", "DIR", "folder of the run [runs/NAME, numbered]", kFree, false},
        flags.output);
  visit(OptionInfo{"resume",
                   "DIR|auto",
                   "go on with the run in DIR (or one checkpoint); auto: with what --output holds, "
                   "else start",
                   kFree,
                   false},
        flags.resume);
  visit(OptionInfo{"trace", "FILE", "write a timeline of the steps (Chrome trace)", kFree, false},
        flags.trace);
  visit(OptionInfo{"trace_steps", "N", "so many steps, after the first 10 [100]", kFree, false},
        flags.trace_steps);
  visit(OptionInfo{"explain", "", "print the resolved plan and stop"}, flags.explain);
}

/// Calls visit(info, member) for each option, in the order of the help: of TrainOptions, or only
/// those of FitOptions.
template <class Options, class Visitor>
void visit_options(Options& options, Visitor&& visit) {
  using enum OnResume;
  constexpr bool kIsTrain = std::is_base_of_v<TrainOptions, std::remove_const_t<Options>>;
  if constexpr (kIsTrain) {
    visit(OptionInfo{"model", "MODEL", "name:key=value,… (muster list models)", kFixed},
          options.model);
    visit(OptionInfo{"data",
                     "DATA",
                     "name:key=value,… (muster list datasets), or folder:PATH,size=224",
                     kFixed},
          options.data);
    visit(OptionInfo{"data_dir",
                     "DIR",
                     "folder of the dataset's files, where they are not in its usual place",
                     kFree,
                     false},
          options.data_dir);
    visit(OptionInfo{"weights",
                     "FILE",
                     "start from a state dict in a safetensors file (torchvision's names)",
                     kFixed,
                     false},
          options.weights);
    visit(OptionInfo{"head",
                     "keep|new",
                     "with --weights; new: the last layer is drawn anew, for other classes",
                     kFixed},
          options.head);
  }
  visit(OptionInfo{"strategy", "NAME|auto", "how ranks share the work (muster list strategies)"},
        options.strategy);
  visit(OptionInfo{"device",
                   "auto|cpu|cuda|cuda:N",
                   "where to compute; a kind alone: each rank on the device of its number"},
        options.device);
  visit(OptionInfo{"devices",
                   "N|0,1",
                   "train on N ranks that are threads of this process, or on one per device listed",
                   kFree,
                   false},
        options.devices);
  visit(OptionInfo{"backend", "NAME|auto", "process group (muster list backends)"},
        options.backend);
  visit(OptionInfo{"comm_hook",
                   "NAME",
                   "how gradients travel: fp16, powersgd:rank=2, … (muster list comm-hooks)"},
        options.comm_hook);
  visit(OptionInfo{"find_unused_parameters",
                   "",
                   "steps may leave out parameters: looked for in each step",
                   kFree,
                   false},
        options.find_unused_parameters);
  visit(OptionInfo{"sync_batch_norm",
                   "",
                   "batch norms over the samples of all ranks, as on one rank with the whole batch",
                   kFixed,
                   false},
        options.sync_batch_norm);
  visit(OptionInfo{"activation_checkpointing",
                   "off|blocks|every:K|budget:BYTES",
                   "parts of the model that run again in backward and keep no activations"},
        options.activation_checkpointing);
  visit(OptionInfo{"epochs", "N", "times through the training data"}, options.epochs);
  visit(OptionInfo{"batch_size",
                   "N|auto",
                   "samples per batch of all ranks together; auto: as many as the device's memory "
                   "has room for, auto:fastest: the fewest that are as fast",
                   kFixed},
        options.batch_size);
  visit(OptionInfo{"eval_batch_size", "N", "samples per batch of each rank in validation and test"},
        options.eval_batch_size);
  visit(OptionInfo{"accumulate_grad_batches", "N", "batches per optimizer step", kFixed},
        options.accumulate_grad_batches);
  visit(OptionInfo{"on_oom",
                   "fail|split|split-unequal",
                   "a step that does not fit into memory ends the run; or is made again in smaller "
                   "micro-batches, to the same gradients (unequal: batch norms see those)"},
        options.on_oom);
  visit(OptionInfo{"drop_last",
                   "",
                   "leave out an epoch's last batch where it is smaller, as a DataLoader's",
                   kFixed,
                   false},
        options.drop_last);
  visit(OptionInfo{"limit_train_batches",
                   "N",
                   "train on the first N batches of each epoch [all]",
                   kFixed,
                   false},
        options.limit_train_batches);
  visit(OptionInfo{"limit_val_batches",
                   "N",
                   "validate on the first N batches; 0: not at all [all]",
                   kFixed,
                   false},
        options.limit_val_batches);
  visit(OptionInfo{"limit_test_batches",
                   "N",
                   "test on the first N batches; 0: not at all [all]",
                   kFree,
                   false},
        options.limit_test_batches);
  visit(OptionInfo{"fast_dev_run",
                   "",
                   "one batch of training, validation and test, to see whether it runs; keeps no "
                   "files",
                   kFixed,
                   false},
        options.fast_dev_run);
  visit(OptionInfo{"overfit_batches",
                   "N",
                   "train on the first N batches alone, in the data's order, and validate on as "
                   "many [0: no]",
                   kFixed,
                   false},
        options.overfit_batches);
  visit(OptionInfo{"val_check_interval",
                   "N",
                   "also validate after each N optimizer steps of an epoch [at its end]",
                   kFixed,
                   false},
        options.val_check_interval);
  visit(OptionInfo{"check_val_every_n_epoch",
                   "N",
                   "validate in every Nth epoch only [1: in each]",
                   kFixed,
                   false},
        options.check_val_every_n_epoch);
  visit(OptionInfo{"num_sanity_val_steps",
                   "N",
                   "try N batches of the validation before the first step; -1: all [0: none]",
                   kFree,
                   false},
        options.num_sanity_val_steps);
  visit(OptionInfo{"optimizer",
                   "NAME",
                   "with parameters: sgd:momentum=0.9 (muster list optimizers)",
                   kFixed},
        options.optimizer);
  visit(OptionInfo{"no_decay",
                   "PATTERN,…",
                   "no weight decay for parameters with this in their name, or norm: of "
                   "normalisations",
                   kFixed,
                   false},
        options.no_decay);
  visit(OptionInfo{"freeze",
                   "PATTERN,…",
                   "do not train parameters with this in their name; with * or ? it is the whole "
                   "name",
                   kFixed,
                   false},
        options.freeze);
  visit(OptionInfo{"lr_factor",
                   "PATTERN=X,…",
                   "X times the rate for parameters with this in their name: '*=0.1,fc=1'",
                   kFixed,
                   false},
        options.lr_factor);
  visit(OptionInfo{"lr",
                   "X|find",
                   "learning rate, or a search for one before the first step [the optimizer's own]",
                   kFree,
                   false},
        options.lr);
  visit(OptionInfo{"lr_schedule",
                   "NAME",
                   "cosine, step:step_size=2, one_cycle, …, each with warmup=STEPS (muster list "
                   "lr-schedules)",
                   kFixed},
        options.lr_schedule);
  visit(OptionInfo{"precision",
                   "32|bf16-mixed|16-mixed",
                   "float32, or products and convolutions in 16 bits (16-mixed scales the loss)",
                   kFixed},
        options.precision);
  visit(OptionInfo{"float32_matmul_precision",
                   "highest|high|medium",
                   "float32 products: as they are, in TF32, or in bfloat16, where there are such"},
        options.float32_matmul_precision);
  visit(OptionInfo{"deterministic",
                   "",
                   "refuse operators whose results differ from run to run",
                   kFree,
                   false},
        options.deterministic);
  visit(OptionInfo{"detect_anomaly",
                   "",
                   "end with the name of the operator whose gradient is NaN; slow",
                   kFree,
                   false},
        options.detect_anomaly);
  visit(OptionInfo{"channels_last",
                   "",
                   "images and weights with their channels last in memory: convolutions may be "
                   "faster",
                   kFree,
                   false},
        options.channels_last);
  visit(OptionInfo{"gradient_clip_val",
                   "X",
                   "largest global norm, or value, of the gradients [0: no limit]",
                   kFixed,
                   false},
        options.gradient_clip_val);
  visit(OptionInfo{"gradient_clip_algorithm",
                   "norm|value",
                   "what --gradient-clip-val bounds: the norm of all gradients, or each element",
                   kFixed},
        options.gradient_clip_algorithm);
  visit(OptionInfo{"ema_decay",
                   "X",
                   "validate and test an exponential average of the weights: 0.999 [no average]",
                   kFixed,
                   false},
        options.ema_decay);
  visit(OptionInfo{"ema_buffers",
                   "average|copy",
                   "what the average has of buffers (running statistics)",
                   kFixed},
        options.ema_buffers);
  if constexpr (kIsTrain) {
    visit(OptionInfo{"loss",
                     "auto|cross_entropy|mse|l1|smooth_l1|huber",
                     "of classes cross_entropy; of a target that is a number mse, or another: "
                     "huber:delta=1, smooth_l1:beta=1",
                     kFixed},
          options.loss);
    visit(OptionInfo{"label_smoothing", "X", "0 to 1", kFixed}, options.label_smoothing);
  }
  visit(OptionInfo{"seed", "N", "of initial weights and the order of samples", kFixed},
        options.seed);
  visit(
      OptionInfo{
          "workers", "N", "loader threads per rank [-1: from cores and ranks]", kFree, false},
      options.workers);
  visit(
      OptionInfo{"loader_timeout",
                 "S",
                 "seconds that a step waits for its batch; then the run ends and names the sample "
                 "[0: no limit]",
                 kFree,
                 false},
      options.loader_timeout);
  if constexpr (kIsTrain) {
    visit(OptionInfo{"validation_samples",
                     "N",
                     "held out from the training data [-1: a twelfth, at most 5000]",
                     kFixed,
                     false},
          options.validation_samples);
    visit(OptionInfo{"validation_split",
                     "auto|stratified|random|tail|file:FILE",
                     "which ones: by the seed, equal shares of the classes (stratified, auto) or "
                     "not; the last ones; or those whose numbers are in FILE",
                     kFixed},
          options.validation_split);
    visit(OptionInfo{"train_transform",
                     "CHAIN",
                     "change training samples, anew in each epoch: name:key=value,…|name|… (muster "
                     "list transforms)",
                     kFixed,
                     false},
          options.train_transform);
    visit(OptionInfo{"eval_transform",
                     "CHAIN",
                     "the same for the samples of validation and test",
                     kFixed,
                     false},
          options.eval_transform);
    visit(
        OptionInfo{
            "top_k", "K", "also count answers among the K best scores [0: no]", kFree, false},
        options.top_k);
  }
  visit(OptionInfo{"monitor",
                   kIsTrain ? "auto|validate_accuracy|validate_loss|validate_rmse|validate_r2"
                            : "NAME",
                   kIsTrain ? "what makes an epoch the best; auto: accuracy, of a regression loss "
                              "(validate_mae, too)"
                            : "what makes an epoch the best: validate_loss, or another metric",
                   kFixed},
        options.monitor);
  visit(
      OptionInfo{
          "patience", "N", "stop after N validations that were not better [never]", kFree, false},
      options.patience);
  visit(OptionInfo{"min_delta", "X", "better means better by more than X"}, options.min_delta);
  visit(OptionInfo{"test_weights", "last|best", "weights for the test at the end"},
        options.test_weights);
  visit(OptionInfo{"max_steps", "N", "stop after N optimizer steps [0: no limit]", kFree, false},
        options.max_steps);
  visit(OptionInfo{"max_time",
                   "TIME",
                   "end in order after so much time of the whole run: 90m, 1h30m [0: no limit]",
                   kFree,
                   false},
        options.max_time);
  visit(OptionInfo{"min_epochs",
                   "N",
                   "neither --patience nor --max-time ends the run before N epochs [0]",
                   kFree,
                   false},
        options.min_epochs);
  visit(OptionInfo{"min_steps", "N", "nor before N optimizer steps [0]", kFree, false},
        options.min_steps);
  visit(OptionInfo{"checkpoint_every",
                   "N",
                   "steps between checkpoints [0: only at each epoch's end]",
                   kFree,
                   false},
        options.checkpoint_every);
  visit(OptionInfo{"keep_checkpoints", "N", "how many to keep, besides the best one"},
        options.keep_checkpoints);
  visit(OptionInfo{"log_every", "N", "steps per row of metrics"}, options.log_every);
  visit(
      OptionInfo{
          "tensorboard", "scalars|all|off", "event files; all: histograms and images as well"},
      options.tensorboard);
}

}  // namespace muster::train
