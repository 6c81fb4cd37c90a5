// What a user can say about a training run. Of each option option_infos.h has flag and help.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "muster/train/plan/searched_numbers.h"

namespace muster::train {

/// How any task is trained. Names that take parameters are written name:key=value,key=value.
struct FitOptions {
  std::string strategy = "auto";   ///< a name of `muster list strategies`, or auto
  std::string device = "auto";     ///< auto, cpu, or a kind of device: cuda, or cuda:1
  std::string devices;             ///< "2": ranks that are threads of this process; "0,1": on these
  std::string backend = "auto";    ///< a name of `muster list backends`, or auto
  std::string comm_hook = "none";  ///< how gradients travel: of `muster list comm-hooks`
  bool find_unused_parameters = false;           ///< steps may leave out parameters (ddp, dp, zero)
  std::string activation_checkpointing = "off";  ///< what runs again: parse_block_rule's words
  bool sync_batch_norm = false;  ///< batch norms over all ranks; see Note [Batch norms over ranks]
  std::string optimizer = "sgd";
  LearningRate lr;  ///< the optimizer's own default if not given
  std::string lr_schedule = "constant";
  std::string precision = "32";                      ///< or bf16-mixed or 16-mixed, as Lightning's
  std::string float32_matmul_precision = "highest";  ///< or high or medium, as PyTorch's
  bool deterministic = false;   ///< operators whose results differ from run to run are refused
  bool detect_anomaly = false;  ///< an operator whose gradient is NaN ends the run by its name
  bool channels_last = false;   ///< images and convolutions' weights in that memory format
  int64_t epochs = 5;
  BatchSize batch_size = 128;           ///< global: all ranks together
  int64_t eval_batch_size = 256;        ///< per rank, in validation and test
  int64_t accumulate_grad_batches = 1;  ///< batches per optimizer step, as Lightning's
  std::string on_oom = "fail";       ///< or split: a step that does not fit is made again in pieces
  bool drop_last = false;            ///< leave out an epoch's last batch where it is smaller
  int64_t limit_train_batches = -1;  ///< only the first ones of each epoch's order; -1: all
  int64_t limit_val_batches = -1;    ///< only the first ones, 0: no validation; -1: all
  int64_t limit_test_batches = -1;   ///< only the first ones, 0: no test; -1: all
  bool fast_dev_run = false;         ///< one batch of each split; see Note [Fast dev run]
  int64_t overfit_batches = 0;       ///< train on the first ones alone, unshuffled; 0: do not
  int64_t val_check_interval = 0;    ///< also validate after so many steps of an epoch; 0: do not
  int64_t check_val_every_n_epoch = 1;  ///< validate in epoch n, 2n, …; in the others not at all
  int64_t num_sanity_val_steps = 0;     ///< batches to validate before the first step; -1: all
  std::string no_decay;                 ///< patterns, "norm,bias": parameters without weight decay
  std::string freeze;                   ///< patterns: parameters that are not trained
  std::string lr_factor;         ///< "PATTERN=X,…": parts with X times the rate; the last holds
  double gradient_clip_val = 0;  ///< largest global 2-norm, or value, of gradients; 0: no limit
  std::string gradient_clip_algorithm =
      "norm";            ///< or value: each element by itself, as Lightning's
  double ema_decay = 0;  ///< of the average that is tested; 0: none; see Note [Averaged weights]
  std::string ema_buffers = "average";    ///< or copy: what the average has of buffers
  std::string monitor = "validate_loss";  ///< validate_METRIC: which epoch is the best
  int64_t patience = 0;               ///< stop after so many epochs without a better one; 0: never
  double min_delta = 0;               ///< what is better by no more than this is not better
  std::string test_weights = "last";  ///< or best: which weights the test at the end uses
  int64_t max_steps = 0;              ///< stop after so many steps of the whole run; 0: no limit
  int64_t min_epochs = 0;  ///< neither patience nor max_time ends the run before so many epochs
  int64_t min_steps = 0;   ///< nor before so many steps
  double max_time = 0;     ///< seconds of the whole run; 0: no limit; see Note [Time limit]
  int64_t seed = 0;
  int64_t workers = -1;                 ///< loader threads per rank; -1: from cores and ranks
  double loader_timeout = 0;            ///< seconds that a step waits for its batch; 0: no limit
  int64_t checkpoint_every = 0;         ///< steps between, besides one per epoch; 0: only those
  int64_t keep_checkpoints = 3;         ///< newest ones; the best one stays besides
  int64_t log_every = 50;               ///< steps per row of metrics
  std::string tensorboard = "scalars";  ///< off; or all: histograms and images as well
};

/// What `muster train` takes: a model of the zoo, its data, and from these to classes, or to a number.
struct TrainOptions : FitOptions {
  TrainOptions() { monitor = "auto"; }  // validate_accuracy, or of a regression validate_loss

  std::string model = "cnn";
  std::string data = "fashion-mnist";
  std::filesystem::path data_dir;  ///< empty: the dataset's own places
  std::filesystem::path weights;   ///< a safetensors file to start from; empty: drawn from the seed
  std::string head = "keep";       ///< or new: the last layer is drawn, not taken from `weights`
  /// auto: cross_entropy of classes, mse of numbers; those may have parse_regression_loss()'s.
  std::string loss = "auto";
  double label_smoothing = 0;       ///< 0 … 1
  int64_t validation_samples = -1;  ///< held out of the training split; -1: a twelfth, to 5,000
  /// Which ones: stratified or random by the seed, the tail, or file:FILE; auto: stratified if the
  /// data tells its classes, else random.
  std::string validation_split = "auto";
  std::vector<int64_t> held_out;  ///< what file:FILE lists, once it is read
  std::string train_transform;    ///< data::parse_transforms' chain, of training samples
  std::string eval_transform;     ///< of those of validation, test and `muster evaluate`
  int64_t top_k = 0;              ///< also count answers among the k best scores; 0: do not
};

/// What is said about a run of any task besides: where it is, and what is shown of it.
struct RunFlags {
  std::filesystem::path output;        ///< empty: a fresh folder below runs/
  std::filesystem::path resume;        ///< a run's folder or a checkpoint; auto: what output holds
  std::filesystem::path trace;         ///< a timeline of the steps is written there
  std::optional<int64_t> trace_steps;  ///< of it; 100 if not said
  bool explain = false;                ///< the plan is printed, and nothing trained
};

}  // namespace muster::train
