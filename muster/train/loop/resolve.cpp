#include "muster/train/loop/resolve.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <ATen/Parallel.h>

#include "muster/base/error.h"
#include "muster/base/params.h"
#include "muster/base/text.h"
#include "muster/data/loader/loader.h"
#include "muster/distributed/meet/backend.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/schedule.h"
#include "muster/parallel/hook/comm_hook.h"
#include "muster/train/device/try_devices.h"
#include "muster/train/loop/run_limits.h"
#include "muster/train/plan/option_checks.h"
#include "muster/train/plan/placement.h"
#include "muster/train/replicas/ddp_strategy.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train {
namespace {

constexpr std::string_view kMonitored = "validate_";

void take_spec(const std::string& text, std::string& name, ParamValues& params) {
  Spec spec = parse_spec(text);
  name = std::move(spec.name);
  params = std::move(spec.params);
}

int64_t share_of_batch(int64_t batch_size, int64_t world_size) {
  if (batch_size % world_size == 0) return batch_size / world_size;
  const int64_t below = batch_size / world_size * world_size;
  int64_t ranks = std::min(batch_size, world_size);
  while (batch_size % ranks != 0) --ranks;
  throw usage_error(
      {.refused = "--batch-size",
       .rule =
           concat("it is the global batch and is divided equally among the ", world_size, " ranks"),
       .value = std::to_string(batch_size),
       .hint = concat("take ",
                      below > 0 ? concat(below, " or ", below + world_size) : concat(world_size),
                      "; of a run that goes on, which keeps its batch, ",
                      ranks,
                      ranks == 1 ? " rank" : " ranks")});
}

/// Refuses a strategy whose ranks come from elsewhere. `devices`: ranks that --devices asks for.
void check_ranks(const StrategyEntry& strategy,
                 const FitOptions& options,
                 int64_t processes,
                 int64_t devices) {
  const std::string& backend = options.backend;
  const std::string flag = concat("--strategy ", strategy.name);
  const bool only_threads = strategy.ranks == RankSource::kThreads;
  if (strategy.ranks != RankSource::kProcesses && processes > 1) {
    throw usage_error(
        {.refused = flag,
         .rule = only_threads ? "its ranks are threads of one process" : "it trains on one rank",
         .value = concat(processes, only_threads ? " processes" : " ranks"),
         .hint = concat("start one process",
                        only_threads ? " with --devices N" : "",
                        ", or take --strategy ddp")});
  }
  if (only_threads && devices == 0) {
    throw usage_error({.refused = flag,
                       .rule = "it needs the number of its ranks",
                       .hint = "say --devices N, at most the number of cores"});
  }
  const bool has_threads = devices > 0 && processes == 1;
  const distributed::BackendEntry* named = distributed::backends().find(backend);
  const bool is_for_threads = named != nullptr && named->for_threads_only;
  if (has_threads && backend != "auto" && !is_for_threads) {
    throw usage_error({.refused = "--backend " + backend,
                       .rule = "ranks that are threads of this process talk over `thread`",
                       .value = concat("--devices ", options.devices),
                       .hint = "leave --backend away, or start the ranks with `muster run`"});
  }
  if (strategy.ranks == RankSource::kNone && devices > 0) {
    throw usage_error({.refused = concat("--devices ", options.devices),
                       .rule = "it is for strategies with more than one rank",
                       .value = flag,
                       .hint = "take --strategy dp, or name one device: --device cuda:1"});
  }
  if (processes > 1 && devices > 0 && parse_devices(options.devices).indices.empty()) {
    throw usage_error({.refused = concat("--devices ", options.devices),
                       .rule = "ranks that are threads belong to one process",
                       .value = concat(processes, " processes"),
                       .hint =
                           "leave --devices away: the launcher says how many ranks there are; or "
                           "list the machine's devices, as in 0,1"});
  }
}

/// Fills in the strategy, the number of ranks, and where they compute.
void resolve_strategy(FitOptions& options, FitNumbers& numbers, const Surroundings& around) {
  const int64_t devices = parse_devices(options.devices).count, processes = around.world_size;
  if (options.strategy == "auto")
    options.strategy = processes > 1 ? "ddp" : devices > 0 ? "dp" : "single";
  take_spec(options.strategy, numbers.strategy_name, numbers.strategy_params);
  const StrategyEntry& strategy = strategy_named(numbers.strategy_name);
  check_ranks(strategy, options, processes, devices);
  numbers.threads = processes == 1 ? devices : 0;
  numbers.world_size = numbers.threads > 0 ? numbers.threads : processes;
  if (strategy.ranks_per_replica != nullptr) {
    check_param_names(strategy.params, numbers.strategy_params, concat("strategy ", strategy.name));
    numbers.ranks_per_replica =
        strategy.ranks_per_replica(numbers.world_size, numbers.strategy_params);
  }
  const Placement placed = place({.device = options.device,
                                  .devices = options.devices,
                                  .threads = numbers.threads,
                                  .local_rank = around.local_rank,
                                  .local_world_size = around.local_world_size,
                                  .kinds = around.kinds});
  numbers.devices = placed.devices;
  numbers.machine_devices = placed.on_machine;
  numbers.device_reason = placed.why;
  numbers.remarks.insert(numbers.remarks.end(), placed.remarks.begin(), placed.remarks.end());
  if (numbers.threads > around.cores && numbers.devices[0].is_cpu())
    numbers.remarks.push_back(concat(numbers.threads,
                                     " ranks share ",
                                     around.cores,
                                     around.cores == 1 ? " core" : " cores",
                                     ": they take turns, fewer ranks would be faster"));
}

/// Steps and samples of an epoch, and of the run.
void count_steps(const FitOptions& options, FitNumbers& numbers) {
  if (numbers.train_samples == 0) {
    throw usage_error(
        {.refused = "the data to train on", .rule = "at least one sample", .value = "none"});
  }
  numbers.samples_per_step = options.batch_size * options.accumulate_grad_batches;
  numbers.samples_per_epoch = numbers.train_samples;
  if (options.drop_last) numbers.samples_per_epoch -= numbers.train_samples % options.batch_size;
  if (numbers.samples_per_epoch == 0) {
    throw usage_error(
        {.refused = "--drop-last",
         .rule = "an epoch has at least one whole batch",
         .value =
             concat(numbers.train_samples, " samples to train, --batch-size ", options.batch_size),
         .hint = "take a smaller --batch-size, or leave --drop-last away"});
  }
  numbers.samples_per_epoch =
      limited_samples(numbers.samples_per_epoch, options.limit_train_batches, options.batch_size);
  numbers.steps_per_epoch = numbers.samples_per_epoch / numbers.samples_per_step +
                            (numbers.samples_per_epoch % numbers.samples_per_step != 0 ? 1 : 0);
  if (__builtin_mul_overflow(numbers.steps_per_epoch, options.epochs, &numbers.total_steps)) {
    throw usage_error(
        {.refused = "--epochs",
         .rule = "the steps of the run are counted with 64 bits",
         .value = concat(options.epochs, " epochs of ", numbers.steps_per_epoch, " steps")});
  }
  if (options.max_steps > 0) numbers.total_steps = std::min(numbers.total_steps, options.max_steps);
}

/// All that follows from the batch size.
void count_batches(FitOptions& options, FitNumbers& numbers) {
  numbers.batch_per_rank =
      share_of_batch(options.batch_size, numbers.world_size / numbers.ranks_per_replica);
  count_steps(options, numbers);
  check_least_and_most(options, numbers);
  numbers.schedule_steps = numbers.total_steps;
  numbers.schedule_epochs = options.epochs;
  if (options.fast_dev_run) {
    shorten(options);
    count_steps(options, numbers);
  }
  check_validation(options, numbers);
}

/// What --batch-size auto cannot have.
void check_batch_search(const FitOptions& options, const FitNumbers& numbers) {
  const std::string flag = concat("--batch-size ", options.batch_size.search);
  const auto refusal = [&](const std::string& rule, const std::string& value, const char* hint) {
    return usage_error({.refused = flag, .rule = rule, .value = value, .hint = hint});
  };
  if (options.batch_size.search != "auto" && options.batch_size.search != "auto:fastest")
    throw refusal("a number, auto, or auto:fastest", options.batch_size.search, "");
  if (numbers.devices[0].is_cpu()) {
    throw refusal(
        "it measures the memory of a device, and a step on the CPU may take all of the machine's",
        "--device cpu",
        "give --batch-size a number");
  }
  const StrategyEntry& strategy = strategies().at(numbers.strategy_name);
  const int64_t replicas = numbers.world_size / numbers.ranks_per_replica;
  const bool has_several = replicas > 1 && numbers.ranks_per_replica > 1;
  if (!strategy.splits_steps || has_several) {
    throw refusal("memory may run out on one rank alone while it searches",
                  concat("--strategy ", numbers.strategy_name, has_several ? " in replicas" : ""),
                  "take one of all ranks, another --strategy, or give --batch-size a number");
  }
  if (strategy.batch_pieces != nullptr) strategy.batch_pieces(numbers.strategy_params);
  if (numbers.world_size > 1 && options.on_oom == "fail") {
    throw refusal("on several ranks it measures steps of --on-oom split, which take other memory",
                  "--on-oom fail",
                  "say --on-oom split, or give --batch-size a number");
  }
  if (options.activation_checkpointing.starts_with("budget")) {
    throw refusal("a budget of activations bounds the batch itself",
                  "--activation-checkpointing " + options.activation_checkpointing,
                  "give --batch-size a number, or say which blocks run again");
  }
  if (options.fast_dev_run || options.limit_train_batches >= 0) {
    throw refusal("a run of a few batches does not say how large they are",
                  options.fast_dev_run          ? "--fast-dev-run"
                  : options.overfit_batches > 0 ? "--overfit-batches"
                                                : "--limit-train-batches",
                  "give --batch-size a number");
  }
}

/// Which metric of the validation makes an epoch the best.
void resolve_monitor(const FitOptions& options,
                     const std::vector<Metric>& all,
                     FitNumbers& numbers) {
  const std::vector<Metric> metrics = shown_metrics(all);
  std::vector<std::string> known;
  for (const Metric& metric : metrics) known.push_back(concat(kMonitored, metric.name));
  known.push_back(concat(kMonitored, "loss"));
  const auto found = std::find(known.begin(), known.end(), options.monitor);
  if (found == known.end()) {
    throw usage_error({.refused = "--monitor",
                       .rule = join(known, " or "),
                       .value = options.monitor,
                       .hint = suggestion(options.monitor, known)});
  }
  const auto at = static_cast<size_t>(found - known.begin());
  numbers.monitored = options.monitor.substr(kMonitored.size());
  numbers.monitor_falls = at == metrics.size() || metrics[at].wants_less;
}

void check_on_oom(const FitOptions& options, const FitNumbers& numbers) {
  if (options.on_oom == "fail") return;
  const std::string flag = concat("--on-oom ", options.on_oom);
  if (!strategies().at(numbers.strategy_name).splits_steps) {
    throw usage_error({.refused = flag,
                       .rule = "ranks must not wait for each other in a step that may fail on one",
                       .value = "--strategy " + numbers.strategy_name,
                       .hint = "take another strategy than fsdp, or --on-oom fail"});
  }
  if (options.sync_batch_norm && numbers.world_size > 1) {
    throw usage_error({.refused = flag + " with --sync-batch-norm",
                       .rule = "ranks must not wait for each other in a step that may fail on one",
                       .hint = "leave one of the two away"});
  }
}

/// Names and numbers that would else be refused when the output folder exists already.
void check_parts(const FitOptions& options,
                 const FitNumbers& numbers,
                 const std::vector<Metric>& metrics) {
  check_param_names(strategies().at(numbers.strategy_name).params,
                    numbers.strategy_params,
                    concat("strategy ", numbers.strategy_name));
  strategies().at(numbers.strategy_name).check(options, numbers, numbers.strategy_params);
  detail::check_comm_hook(options, numbers);
  check_on_oom(options, numbers);
  optim::optimizers().at(numbers.optimizer_name).make({}, numbers.lr, numbers.optimizer_params);
  // In a run whose batch is yet to be found its steps are not known; then it is made when they are.
  if (options.batch_size.search.empty())
    optim::make_schedule(options.lr_schedule, schedule_context(numbers, metrics));
}

}  // namespace

Surroundings surroundings_of(const std::optional<RankEnv>& env, const tensor::DeviceKinds& kinds) {
  return {.world_size = env ? env->world_size : 1,
          .local_world_size = env ? env->local_world_size : 1,
          .cores = std::max<int64_t>(1, std::thread::hardware_concurrency()),
          .intraop_threads = 0,
          .local_rank = env ? env->local_rank : 0,
          .kinds = kinds};
}

Placement place_asked(const AskOptions& said, const Surroundings& around) {
  Placement placed = place({.device = said.device,
                            .devices = {},
                            .local_rank = around.local_rank,
                            .local_world_size = around.local_world_size,
                            .kinds = around.kinds});
  try_devices(placed.devices);
  return placed;
}

optim::ScheduleContext schedule_context(const FitNumbers& numbers,
                                        const std::vector<Metric>& metrics) {
  optim::ScheduleContext context{.lr = numbers.lr,
                                 .total_steps = numbers.schedule_steps,
                                 .total_epochs = numbers.schedule_epochs,
                                 .metrics = {}};
  for (const Metric& metric : shown_metrics(metrics))
    context.metrics.push_back({.name = metric.name, .wants_less = metric.wants_less});
  return context;
}

bool may_split(FitOptions options, const FitNumbers& numbers) {
  options.on_oom = "split";
  try {
    strategies().at(numbers.strategy_name).check(options, numbers, numbers.strategy_params);
    check_on_oom(options, numbers);
    return true;
  } catch (const Error&) {
    return false;
  }
}

FitPlan with_batch_size(const FitPlan& plan, int64_t samples) {
  FitPlan out = plan;
  out.options.batch_size = samples;
  out.options.batch_size.found_by = plan.options.batch_size.search;
  count_batches(out.options, out);
  out.record.update(to_json(static_cast<const FitNumbers&>(out)));
  out.record["batch_size"] = samples;
  out.record[kBatchFoundBy] = out.options.batch_size.found_by;
  out.explained += explained_line(
      "found", concat("batch ", samples, ", by --batch-size ", out.options.batch_size.found_by));
  return out;
}

FitNumbers resolve_fit(FitOptions& options,
                       const Surroundings& around,
                       const SplitFacts& splits,
                       const std::vector<Metric>& metrics) {
  check_options(options);
  limit_to_overfit(options);
  FitNumbers numbers;
  numbers.train_samples = splits.train;
  numbers.validation_samples = splits.validation;
  numbers.test_samples = splits.test;
  numbers.train_fingerprint = splits.train_fingerprint;
  numbers.test_fingerprint = splits.test_fingerprint;
  numbers.validation_fingerprint = splits.validation_fingerprint;
  resolve_strategy(options, numbers, around);
  take_spec(options.optimizer, numbers.optimizer_name, numbers.optimizer_params);
  take_spec(options.lr_schedule, numbers.schedule_name, numbers.schedule_params);
  numbers.most_momentum =
      optim::most_momentum(optim::schedules().at(numbers.schedule_name), numbers.schedule_params);
  const auto own_rate = numbers.schedule_params.find("max_lr");
  if (!options.lr.search.empty() && own_rate != numbers.schedule_params.end() &&
      to_double(own_rate->second).value_or(0) != 0) {
    throw usage_error({.refused = "--lr " + options.lr.search,
                       .rule = "what is found is the rate of the schedule",
                       .value = "--lr-schedule " + options.lr_schedule,
                       .hint = "leave max_lr away"});
  }
  const auto [precision, precision_params] = parse_spec(options.precision);
  numbers.precision = parse_precision(precision, precision_params);
  if (options.fast_dev_run && !options.lr.search.empty()) {
    numbers.remarks.emplace_back("a fast dev run searches for no learning rate");
    options.lr = {};
  }
  numbers.lr = options.lr.value.value_or(optim::optimizers().at(numbers.optimizer_name).default_lr);
  if (options.lr.search.empty()) options.lr.value = numbers.lr;
  resolve_monitor(options, metrics, numbers);
  if (options.workers < 0)
    options.workers =
        data::default_workers(around.cores, std::max(around.local_world_size, numbers.threads));
  if (options.loader_timeout > 0 && options.workers == 0) {
    throw usage_error({.refused = "--loader-timeout",
                       .rule = "a worker makes the batches that a step waits for",
                       .value = "0 workers",
                       .hint = "take --workers 1 or more"});
  }
  if (options.batch_size.search.empty()) {
    count_batches(options, numbers);
  } else {
    check_batch_search(options, numbers);
    FitOptions least = options;  // to be counted again when it is found
    least.batch_size = numbers.world_size / numbers.ranks_per_replica;
    count_batches(least, numbers);
  }
  const int64_t threads =
      around.intraop_threads > 0 ? around.intraop_threads : at::get_num_threads();
  numbers.intraop_threads = std::max<int64_t>(1, threads / std::max<int64_t>(1, numbers.threads));
  check_parts(options, numbers, metrics);
  if (parallel::has_comm_hook(options.comm_hook) && numbers.world_size == 1)
    numbers.remarks.push_back(
        concat("--comm-hook ", options.comm_hook, ": one rank has nothing to send"));
  return numbers;
}

}  // namespace muster::train
