#include "muster/train/plan/plan.h"

#include <algorithm>

#include <ATen/Parallel.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/loader/loader.h"
#include "muster/formats/crc32.h"
#include "muster/models/model.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/schedule.h"
#include "muster/train/plan/option_checks.h"
#include "muster/train/plan/parts.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train {
namespace {

/// Names and numbers that would else be refused when the output folder exists already.
void check_parts(const TrainPlan& plan) {
  check_param_names(models::models().at(plan.model_name).params,
                    plan.model_params,
                    concat("model ", plan.model_name));
  check_param_names(strategies().at(plan.strategy_name).params,
                    plan.strategy_params,
                    concat("strategy ", plan.strategy_name));
  strategies().at(plan.strategy_name).check(plan, plan.strategy_params);
  optim::optimizers().at(plan.optimizer_name).make({}, plan.lr, plan.optimizer_params);
  optim::make_schedule(
      plan.options.lr_schedule,
      {.lr = plan.lr, .total_steps = plan.total_steps, .total_epochs = plan.options.epochs});
  check_model(plan);
}

/// What cannot work without a validation split is refused before the first step.
void check_validation(const TrainPlan& plan) {
  if (plan.validation_samples > 0) return;
  const TrainOptions& options = plan.options;
  const bool plateau = plan.schedule_name == "plateau";
  if (options.patience == 0 && options.test_weights == "last" && !plateau) return;
  throw usage_error({.refused = options.patience > 0             ? "--patience"
                                : options.test_weights == "best" ? "--test-weights best"
                                                                 : "--lr-schedule plateau",
                     .rule = "it is decided by the validation samples",
                     .value = "--validation-samples 0",
                     .hint = "leave --validation-samples away, or give some"});
}

int64_t share_of_batch(int64_t batch_size, int64_t world_size) {
  if (batch_size % world_size == 0) return batch_size / world_size;
  const int64_t below = batch_size / world_size * world_size;
  throw usage_error(
      {.refused = "--batch-size",
       .rule =
           concat("it is the global batch and is divided equally among the ", world_size, " ranks"),
       .value = std::to_string(batch_size),
       .hint = below > 0 ? concat("take ", below, " or ", below + world_size)
                         : concat("take ", world_size)});
}

/// Refuses a strategy whose ranks come from elsewhere.
void check_ranks(const StrategyEntry& strategy, const TrainOptions& options, int64_t processes) {
  const int64_t devices = options.devices;
  const std::string& backend = options.backend;
  const std::string flag = concat("--strategy ", strategy.name);
  if (strategy.ranks != RankSource::kProcesses && processes > 1) {
    const bool threads = strategy.ranks == RankSource::kThreads;
    throw usage_error(
        {.refused = flag,
         .rule = threads ? "its ranks are threads of one process" : "it trains on one rank",
         .value = concat(processes, threads ? " processes" : " ranks"),
         .hint = concat(
             "start one process", threads ? " with --devices N" : "", ", or take --strategy ddp")});
  }
  if (strategy.ranks == RankSource::kThreads && devices == 0) {
    throw usage_error({.refused = flag,
                       .rule = "it needs the number of its ranks",
                       .hint = "say --devices N, at most the number of cores"});
  }
  if (strategy.ranks == RankSource::kThreads && backend != "auto" && backend != "thread") {
    throw usage_error({.refused = "--backend " + backend,
                       .rule = "ranks that are threads of this process talk over `thread`",
                       .value = flag,
                       .hint = "leave --backend away, or take --strategy ddp"});
  }
  if (strategy.ranks != RankSource::kThreads && devices > 0) {
    throw usage_error({.refused = concat("--devices ", devices),
                       .rule = "it is for strategies whose ranks are threads of this process",
                       .value = flag,
                       .hint = concat("take --strategy dp, or `muster run --nproc-per-node ",
                                      devices,
                                      " -- muster train …`")});
  }
}

/// Fills in the strategy and the number of ranks.
void resolve_strategy(TrainPlan& plan, int64_t processes, int64_t cores) {
  TrainOptions& options = plan.options;
  if (options.strategy == "auto")
    options.strategy = processes > 1 ? "ddp" : options.devices > 0 ? "dp" : "single";
  std::tie(plan.strategy_name, plan.strategy_params) = split_spec(options.strategy);
  const StrategyEntry& strategy = strategies().at(plan.strategy_name);
  check_ranks(strategy, options, processes);
  const bool threads = strategy.ranks == RankSource::kThreads;
  plan.world_size = threads ? options.devices : processes;
  if (threads && options.devices > cores)
    plan.remarks.push_back(concat(options.devices,
                                  " ranks share ",
                                  cores,
                                  cores == 1 ? " core" : " cores",
                                  ": they take turns, fewer ranks would be faster"));
}

void fit_model(TrainPlan& plan, const data::DataSpec& spec) {
  plan.spec = spec;
  if (!spec.is_image() || spec.classes < 2) {
    throw usage_error(
        {.refused = concat("model ", plan.model_name, " cannot take the data ", plan.data_name),
         .rule = "the models tell classes of images apart",
         .hint = "see `muster list datasets`"});
  }
  plan.model_shape = models::fitted_shape(models::models().at(plan.model_name),
                                          {.channels = spec.channels(),
                                           .height = spec.height(),
                                           .width = spec.width(),
                                           .classes = spec.classes});
  if (plan.options.top_k > spec.classes) {
    throw usage_error({.refused = "--top-k",
                       .rule = concat("at most the ", spec.classes, " classes of the data"),
                       .value = std::to_string(plan.options.top_k)});
  }
}

void split_samples(TrainPlan& plan, int64_t train_size, int64_t test_size) {
  int64_t& validation = plan.options.validation_samples;
  if (validation < 0) validation = std::min<int64_t>(5000, train_size / 12);
  plan.validation_samples = validation;
  plan.train_samples = train_size - validation;
  plan.test_samples = test_size;
  if (plan.train_samples < 1) {
    throw usage_error(
        {.refused = "--validation-samples",
         .rule = concat("some of the ", train_size, " samples must be left to train on"),
         .value = std::to_string(validation)});
  }
}

/// Steps and samples of an epoch, and of the run.
void count_steps(TrainPlan& plan) {
  const TrainOptions& options = plan.options;
  plan.samples_per_step = options.batch_size * options.accumulate_grad_batches;
  plan.samples_per_epoch = plan.train_samples;
  if (options.drop_last) plan.samples_per_epoch -= plan.train_samples % options.batch_size;
  if (plan.samples_per_epoch == 0) {
    throw usage_error(
        {.refused = "--drop-last",
         .rule = "an epoch has at least one whole batch",
         .value =
             concat(plan.train_samples, " samples to train, --batch-size ", options.batch_size),
         .hint = "take a smaller --batch-size, or leave --drop-last away"});
  }
  plan.steps_per_epoch = plan.samples_per_epoch / plan.samples_per_step +
                         (plan.samples_per_epoch % plan.samples_per_step != 0 ? 1 : 0);
  if (__builtin_mul_overflow(plan.steps_per_epoch, options.epochs, &plan.total_steps)) {
    throw usage_error(
        {.refused = "--epochs",
         .rule = "the steps of the run are counted with 64 bits",
         .value = concat(options.epochs, " epochs of ", plan.steps_per_epoch, " steps")});
  }
  if (options.max_steps > 0) plan.total_steps = std::min(plan.total_steps, options.max_steps);
}

}  // namespace

std::pair<std::string, ParamValues> split_spec(const std::string& spec) {
  const size_t at = spec.find(':');
  if (at == std::string::npos) return {spec, {}};
  return {spec.substr(0, at), parse_param_values(std::string_view(spec).substr(at + 1))};
}

TrainPlan resolve(const TrainOptions& options,
                  const Surroundings& around,
                  const data::Dataset& train,
                  const data::Dataset& test) {
  check_options(options);
  TrainPlan plan;
  plan.options = options;
  resolve_strategy(plan, around.world_size, around.cores);
  std::tie(plan.model_name, plan.model_params) = split_spec(options.model);
  std::tie(plan.data_name, plan.data_params) = split_spec(options.data);
  std::tie(plan.optimizer_name, plan.optimizer_params) = split_spec(options.optimizer);
  std::tie(plan.schedule_name, plan.schedule_params) = split_spec(options.lr_schedule);
  const auto [precision, precision_params] = split_spec(options.precision);
  plan.precision = parse_precision(precision, precision_params);
  plan.lr = options.lr.value_or(optim::optimizers().at(plan.optimizer_name).default_lr);
  plan.options.lr = plan.lr;
  plan.monitor_falls = options.monitor == "validate_loss";
  plan.batch_per_rank = share_of_batch(options.batch_size, plan.world_size);
  if (options.workers < 0)
    plan.options.workers = data::default_workers(
        around.cores, std::max(around.local_world_size, plan.options.devices));
  fit_model(plan, train.spec());
  split_samples(plan, train.size(), test.size());
  plan.train_fingerprint = formats::crc32_text(train.fingerprint());
  plan.test_fingerprint = formats::crc32_text(test.fingerprint());
  check_validation(plan);
  count_steps(plan);
  const int64_t threads =
      around.intraop_threads > 0 ? around.intraop_threads : at::get_num_threads();
  plan.intraop_threads = std::max<int64_t>(1, threads / std::max<int64_t>(1, options.devices));
  check_parts(plan);
  return plan;
}

void check_weights(const TrainPlan& plan) {
  const std::filesystem::path& weights = plan.options.weights;
  if (weights.empty() || std::filesystem::is_regular_file(weights)) return;
  throw usage_error({.refused = "--weights " + weights.string(),
                     .rule = std::filesystem::exists(weights)
                                 ? "it is a folder, not a safetensors file"
                                 : "there is no such file"});
}

std::string explain(const TrainPlan& plan) {
  const TrainOptions& options = plan.options;
  std::string out;
  const auto line = [&](std::string_view what, auto&&... text) {
    out += concat(what, std::string(14 - what.size(), ' '), text..., '\n');
  };
  const auto size = [](int64_t channels, int64_t height, int64_t width) {
    return concat(channels, " x ", height, " x ", width);
  };
  const auto& shape = plan.spec.sample_shape;
  const models::ImageShape& seen = plan.model_shape;
  const std::string at_data = size(shape[0], shape[1], shape[2]);
  const std::string at_model = size(seen.channels, seen.height, seen.width);
  line("model",
       options.model,
       ", ",
       seen.classes,
       " classes",
       options.weights.empty() ? "" : ", weights from " + options.weights.string());
  line("data",
       options.data,
       ": ",
       plan.train_samples,
       " to train, ",
       plan.validation_samples,
       " to validate, ",
       plan.test_samples,
       " to test");
  line("fingerprint",
       plan.train_fingerprint,
       " of the training split, ",
       plan.test_fingerprint,
       " of the test split");
  line("images",
       at_data,
       at_data == at_model ? ""
                           : concat(", made ",
                                    at_model,
                                    " for the model",
                                    seen.height != shape[1] || seen.width != shape[2]
                                        ? " (resized, bilinear with antialias)"
                                        : "",
                                    seen.channels != shape[0] ? " (channels repeated)" : ""));
  line("optimizer",
       options.optimizer,
       ", learning rate ",
       shortest(plan.lr),
       ", schedule ",
       options.lr_schedule);
  line("loss",
       "cross-entropy",
       options.label_smoothing > 0 ? concat(", label smoothing ", shortest(options.label_smoothing))
                                   : "",
       options.gradient_clip_val > 0
           ? concat("; gradients clipped to a global norm of ", shortest(options.gradient_clip_val))
           : "");
  line("precision", options.precision, ": ", describe(plan.precision));
  line("strategy",
       options.strategy,
       " on ",
       plan.world_size,
       plan.world_size == 1 ? " rank" : " ranks",
       options.devices > 0 ? ", threads of this process" : ", backend " + options.backend);
  line("batch",
       options.batch_size,
       " = ",
       plan.world_size,
       " x ",
       plan.batch_per_rank,
       options.accumulate_grad_batches == 1 ? ""
                                            : concat("; ",
                                                     options.accumulate_grad_batches,
                                                     " of them per optimizer step (",
                                                     plan.samples_per_step,
                                                     " samples)"),
       options.drop_last ? "; an epoch's last batch is left out if it is smaller" : "");
  line("steps",
       plan.steps_per_epoch,
       " per epoch, ",
       plan.total_steps,
       " in all (",
       options.epochs,
       options.epochs == 1 ? " epoch)" : " epochs)");
  line("workers", options.workers, " per rank");
  line("threads", plan.intraop_threads, " per rank; with another number sums round otherwise");
  line(
      "checkpoints",
      "at each epoch's end",
      options.checkpoint_every > 0 ? concat(" and every ", options.checkpoint_every, " steps") : "",
      ", the last ",
      options.keep_checkpoints,
      " kept",
      plan.validation_samples > 0 ? concat(", and the best by ", options.monitor) : "");
  if (options.patience > 0)
    line("stops early", "after ", options.patience, " epochs without a better ", options.monitor);
  line("test", "with the ", options.test_weights, " weights");
  line("seed", options.seed);
  for (const std::string& remark : plan.remarks) line("note", remark);
  return out;
}

}  // namespace muster::train
