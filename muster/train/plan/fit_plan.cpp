#include "muster/train/plan/fit_plan.h"

#include <algorithm>

#include "muster/base/counted.h"
#include "muster/base/text.h"
#include "muster/distributed/meet/backend.h"
#include "muster/parallel/hook/comm_hook.h"
#include "muster/train/plan/lr_search.h"
#include "muster/train/plan/placement.h"

namespace muster::train {
namespace {

/// "the first 8 batches of each epoch, no validation"; empty without a limit.
std::string limits_of(const FitOptions& options) {
  std::vector<std::string> parts;
  const auto add = [&](int64_t batches, const char* what, const char* none) {
    if (batches < 0) return;
    parts.push_back(
        batches == 0
            ? std::string(none)
            : concat("the first ", batches, batches == 1 ? " batch of " : " batches of ", what));
  };
  add(options.limit_train_batches, "each epoch", "");
  add(options.limit_val_batches, "the validation", "no validation");
  add(options.limit_test_batches, "the test", "no test");
  return join(parts, ", ");
}

/// When there is a validation, where not at each epoch's end alone.
std::string validations_of(const FitOptions& options) {
  const int64_t every = options.check_val_every_n_epoch, interval = options.val_check_interval;
  const int64_t tried = options.num_sanity_val_steps;
  std::vector<std::string> parts;
  if (every > 1 || interval > 0) {
    parts.push_back(every > 1 ? concat("at the end of every ", every, ". epoch")
                              : "at each epoch's end");
    if (interval > 0) parts.back() += concat(" and after each ", interval, " steps of it");
  }
  if (tried != 0)
    parts.push_back(
        concat(tried < 0 ? "all of it" : concat(tried, " batches"), " tried at the start"));
  return join(parts, ", ");
}

/// What --lr find will do.
std::string searched(const std::string& spec) {
  const LrSearchOptions search = parse_lr_search(spec);
  return concat("searched from ",
                shortest(search.min),
                " to ",
                shortest(search.max),
                " in at most ",
                search.steps,
                " steps before the first");
}

}  // namespace

int64_t limited_samples(int64_t samples, int64_t batches, int64_t batch_size) {
  return batches < 0 ? samples : std::min(samples, batches * batch_size);
}

Json to_json(const FitNumbers& numbers) {
  return {{"world_size", numbers.world_size},
          {"batch_per_rank", numbers.batch_per_rank},
          {"samples_per_step", numbers.samples_per_step},
          {"train_samples", numbers.train_samples},
          {"test_samples", numbers.test_samples},
          {"train_fingerprint", numbers.train_fingerprint},
          {"test_fingerprint", numbers.test_fingerprint},
          {"validation_fingerprint", numbers.validation_fingerprint},
          {"steps_per_epoch", numbers.steps_per_epoch},
          {"total_steps", numbers.total_steps},
          {"intraop_threads", numbers.intraop_threads}};
}

std::string explained_line(std::string_view what, std::string_view text) {
  return concat(what, std::string(14 - what.size(), ' '), text, '\n');
}

std::string explain(const FitOptions& options, const FitNumbers& plan, const std::string& loss) {
  std::string out;
  const auto line = [&](std::string_view what, auto&&... text) {
    out += explained_line(what, concat(text...));
  };
  line("optimizer",
       options.optimizer,
       ", learning rate ",
       options.lr.search.empty() ? shortest(plan.lr) : searched(options.lr.search),
       ", schedule ",
       options.lr_schedule);
  if (!options.no_decay.empty()) line("no decay", "of parameters like ", options.no_decay);
  if (!options.lr_factor.empty()) line("lr factors", options.lr_factor);
  if (!options.freeze.empty()) line("frozen", "parameters like ", options.freeze);
  if (options.ema_decay > 0)
    line("averages",
         "decay ",
         shortest(options.ema_decay),
         " of weights",
         options.ema_buffers == "average" ? " and buffers" : "",
         ", validated and tested; one more copy of the model on every rank and in each checkpoint");
  line("loss",
       loss,
       options.gradient_clip_val > 0 ? concat(options.gradient_clip_algorithm == "value"
                                                  ? "; each gradient clipped to at most "
                                                  : "; gradients clipped to a global norm of ",
                                              shortest(options.gradient_clip_val))
                                     : "");
  line("precision",
       options.precision,
       ": ",
       describe(plan.precision),
       options.float32_matmul_precision == "highest"
           ? ""
           : concat("; float32 products in ", options.float32_matmul_precision, " precision"));
  if (options.deterministic)
    line("determinism", "operators with other results each time are refused");
  if (options.detect_anomaly)
    line("anomalies", "an operator whose gradient is NaN ends the run by its name; slow");
  if (options.channels_last) line("memory format", "channels last");
  line("strategy",
       options.strategy,
       " on ",
       plan.world_size,
       plan.world_size == 1 ? " rank" : " ranks",
       plan.threads > 0
           ? ", threads of this process"
           : ", backend " + distributed::backend_outlook(options.backend, plan.devices[0].type()));
  line("device",
       names_of(plan.machine_devices),
       plan.device_reason.empty() ? "" : concat(" (", plan.device_reason, ")"));
  if (parallel::has_comm_hook(options.comm_hook)) line("comm hook", options.comm_hook);
  if (options.find_unused_parameters) line("unused", "parameters are looked for in each step");
  if (options.sync_batch_norm) line("batch norm", "over the samples of all ranks");
  if (options.activation_checkpointing != "off") {
    line("activations", "run again in backward: ", options.activation_checkpointing);
  }
  const std::string& search = options.batch_size.search;
  if (!search.empty()) {
    line("batch",
         "searched before the first step: ",
         search == "auto" ? "as many samples as fit into memory" : "the fewest that are as fast",
         "; the number of steps follows from it");
  } else {
    line("batch",
         options.batch_size,
         " = ",
         plan.world_size / plan.ranks_per_replica,
         " x ",
         plan.batch_per_rank,
         options.accumulate_grad_batches == 1 ? ""
                                              : concat("; ",
                                                       options.accumulate_grad_batches,
                                                       " of them per optimizer step (",
                                                       plan.samples_per_step,
                                                       " samples)"),
         options.drop_last ? "; an epoch's last batch is left out if it is smaller" : "");
  }
  if (options.on_oom != "fail")
    line("out of memory",
         "a step that does not fit is made again in smaller micro-batches",
         options.on_oom == "split" ? "" : ", whose statistics batch normalisations see then",
         plan.world_size > plan.ranks_per_replica ? "; gradients are averaged after backward" : "");
  if (search.empty())
    line("steps",
         plan.steps_per_epoch,
         " per epoch, ",
         plan.total_steps,
         " in all (",
         counted(options.epochs, "epoch"),
         ")");
  if (const std::string limits = limits_of(options); !limits.empty()) line("limits", limits);
  if (options.overfit_batches > 0) line("overfits", "the same samples in each epoch, unshuffled");
  if (const std::string when = validations_of(options); !when.empty()) line("validation", when);
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
    line(
        "stops early",
        "after ",
        counted(options.patience,
                options.val_check_interval > 0 || options.check_val_every_n_epoch > 1 ? "validation"
                                                                                      : "epoch"),
        " without a better ",
        options.monitor);
  if (options.max_time > 0)
    line("ends", "after ", human_duration(options.max_time), " of the whole run");
  if (options.min_epochs > 0 || options.min_steps > 0)
    line("goes on",
         "for at least ",
         counted(options.min_epochs, "epoch"),
         " and ",
         counted(options.min_steps, "step"));
  line("test", "with the ", options.test_weights, " weights");
  line("seed", options.seed);
  if (options.fast_dev_run) line("note", "a fast dev run: one batch of each, and nothing is kept");
  for (const std::string& remark : plan.remarks) line("note", remark);
  return out;
}

}  // namespace muster::train
