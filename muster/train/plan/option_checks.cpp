#include "muster/train/plan/option_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/activations/block_choice.h"
#include "muster/train/plan/lr_search.h"
#include "muster/train/plan/placement.h"

namespace muster::train {
namespace {

// Products of two counts, and of one with the samples of a dataset, stay within 64 bits.
constexpr int64_t kMostCount = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostThreads = 1024;  // loader threads of a rank
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

void count(std::string_view flag, int64_t value, int64_t least, int64_t most = kMostCount) {
  if (value >= least && value <= most) return;
  throw usage_error({.refused = std::string(flag),
                     .rule = value < least ? concat("at least ", least) : concat("at most ", most),
                     .value = std::to_string(value)});
}

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

void in_range(std::string_view flag, double value, double least, double most) {
  if (value >= least && value <= most && std::isfinite(value)) return;
  throw usage_error({.refused = std::string(flag),
                     .rule = most == kUnbounded
                                 ? concat("at least ", shortest(least))
                                 : concat("from ", shortest(least), " to ", shortest(most)),
                     .value = shortest(value)});
}

void one_of(std::string_view flag,
            const std::string& value,
            const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return;
  throw usage_error({.refused = std::string(flag),
                     .rule = join(known, " or "),
                     .value = value,
                     .hint = suggestion(value, known)});
}

void check_numbers(const FitOptions& options) {
  parallel::parse_block_rule(options.activation_checkpointing, "--activation-checkpointing");
  count("--epochs", options.epochs, 1);
  count("--batch-size", options.batch_size, 1);
  count("--eval-batch-size", options.eval_batch_size, 1);
  parse_devices(options.devices);
  count("--accumulate-grad-batches", options.accumulate_grad_batches, 1);
  count("--patience", options.patience, 0);
  count("--max-steps", options.max_steps, 0, kNoLimit);
  count("--min-epochs", options.min_epochs, 0);
  count("--min-steps", options.min_steps, 0, kNoLimit);
  in_range("--max-time", options.max_time, 0, kUnbounded);
  count("--overfit-batches", options.overfit_batches, 0);
  count("--check-val-every-n-epoch", options.check_val_every_n_epoch, 1);
  count("--num-sanity-val-steps", options.num_sanity_val_steps, -1);
  if (options.limit_train_batches != -1)
    count("--limit-train-batches", options.limit_train_batches, 1);
  count("--limit-val-batches", options.limit_val_batches, -1);
  count("--limit-test-batches", options.limit_test_batches, -1);
  count("--val-check-interval", options.val_check_interval, 0, kNoLimit);
  count("--seed", options.seed, 0, kNoLimit);
  count("--workers", options.workers, -1, kMostThreads);
  in_range("--loader-timeout", options.loader_timeout, 0, kUnbounded);
  count("--checkpoint-every", options.checkpoint_every, 0, kNoLimit);
  count("--keep-checkpoints", options.keep_checkpoints, 1);
  count("--log-every", options.log_every, 1, kNoLimit);
  in_range("--gradient-clip-val", options.gradient_clip_val, 0, kUnbounded);
  in_range("--min-delta", options.min_delta, 0, kUnbounded);
  if (!(options.ema_decay >= 0 && options.ema_decay < 1)) {
    throw usage_error({.refused = "--ema-decay",
                       .rule = "from 0 (no average) to below 1, which would never leave the start",
                       .value = shortest(options.ema_decay)});
  }
  const std::optional<double>& lr = options.lr.value;
  if (lr && !(*lr > 0 && std::isfinite(*lr)))
    throw usage_error(
        {.refused = "--lr", .rule = "a learning rate above 0", .value = shortest(*lr)});
  if (!options.lr.search.empty()) parse_lr_search(options.lr.search);
}

void check_names(const FitOptions& options) {
  one_of("--test-weights", options.test_weights, {"last", "best"});
  one_of("--on-oom", options.on_oom, {"fail", "split", "split-unequal"});
  one_of("--gradient-clip-algorithm", options.gradient_clip_algorithm, {"norm", "value"});
  if (options.gradient_clip_algorithm != "norm" && options.gradient_clip_val == 0) {
    throw usage_error({.refused = "--gradient-clip-algorithm " + options.gradient_clip_algorithm,
                       .rule = "it says what --gradient-clip-val bounds, and there is none",
                       .hint = "say --gradient-clip-val, or leave --gradient-clip-algorithm away"});
  }
  one_of("--ema-buffers", options.ema_buffers, {"average", "copy"});
  if (options.ema_buffers != "average" && options.ema_decay == 0) {
    throw usage_error({.refused = "--ema-buffers " + options.ema_buffers,
                       .rule = "it says what an average of the weights has, and there is none",
                       .hint = "say --ema-decay, or leave --ema-buffers away"});
  }
  one_of("--float32-matmul-precision",
         options.float32_matmul_precision,
         {"highest", "high", "medium"});
  one_of("--tensorboard", options.tensorboard, {"off", "scalars", "all"});
  if (options.lr_schedule.empty())
    throw usage_error({.refused = "--lr-schedule", .rule = "it is a name", .value = "\"\""});
}

}  // namespace

void check_options(const FitOptions& options) {
  check_numbers(options);
  check_names(options);
}

void check_options(const TrainOptions& options) {
  check_options(static_cast<const FitOptions&>(options));
  count("--validation-samples", options.validation_samples, -1, kNoLimit);
  count("--top-k", options.top_k, 0);
  one_of("--head", options.head, {"keep", "new"});
  if (options.head == "new" && options.weights.empty()) {
    throw usage_error({.refused = "--head new",
                       .rule = "it leaves the last layer out of a file of weights",
                       .hint = "name the file with --weights, or leave --head away"});
  }
  in_range("--label-smoothing", options.label_smoothing, 0, 1);
}

}  // namespace muster::train
