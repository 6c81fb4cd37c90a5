#include "muster/train/plan.h"

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/loader.h"
#include "muster/models/model.h"
#include "muster/train/optimizer.h"

namespace muster::train {
namespace {

void at_least(std::string_view flag, int64_t value, int64_t least) {
  if (value < least)
    throw usage_error({.refused = std::string(flag),
                       .rule = concat("at least ", least),
                       .value = std::to_string(value)});
}

void check_numbers(const TrainOptions& options) {
  at_least("--epochs", options.epochs, 1);
  at_least("--batch-size", options.batch_size, 1);
  at_least("--validation-samples", options.validation_samples, -1);
  at_least("--max-steps", options.max_steps, 0);
  at_least("--seed", options.seed, 0);
  at_least("--workers", options.workers, -1);
  at_least("--checkpoint-every", options.checkpoint_every, 0);
  at_least("--keep-checkpoints", options.keep_checkpoints, 1);
  at_least("--log-every", options.log_every, 1);
  if (options.lr && !(*options.lr > 0 && std::isfinite(*options.lr))) {
    throw usage_error(
        {.refused = "--lr", .rule = "a learning rate above 0", .value = shortest(*options.lr)});
  }
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

std::string resolve_strategy(const std::string& said, int64_t world_size) {
  const std::vector<std::string> known{"auto", "single", "ddp"};
  if (std::find(known.begin(), known.end(), said) == known.end()) {
    throw usage_error(
        {.refused = "unknown strategy \"" + said + "\"", .hint = suggestion(said, known)});
  }
  if (said == "single" && world_size > 1) {
    throw usage_error({.refused = "--strategy single",
                       .rule = "it trains on one rank",
                       .value = concat(world_size, " ranks"),
                       .hint = "start one process, or take --strategy ddp"});
  }
  return said == "auto" ? (world_size > 1 ? "ddp" : "single") : said;
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
  check_numbers(options);
  TrainPlan plan;
  plan.options = options;
  plan.world_size = around.world_size;
  plan.options.strategy = resolve_strategy(options.strategy, around.world_size);
  std::tie(plan.model_name, plan.model_params) = split_spec(options.model);
  std::tie(plan.data_name, plan.data_params) = split_spec(options.data);
  std::tie(plan.optimizer_name, plan.optimizer_params) = split_spec(options.optimizer);
  plan.lr = options.lr.value_or(optimizers().at(plan.optimizer_name).default_lr);
  plan.options.lr = plan.lr;
  plan.batch_per_rank = share_of_batch(options.batch_size, around.world_size);
  if (options.workers < 0)
    plan.options.workers = data::default_workers(around.cores, around.local_world_size);

  plan.spec = train.spec();
  if (!plan.spec.is_image() || plan.spec.classes < 2) {
    throw usage_error(
        {.refused = concat("model ", plan.model_name, " cannot take the data ", plan.data_name),
         .rule = "the models tell classes of images apart",
         .hint = "see `muster list datasets`"});
  }
  if (options.validation_samples < 0)
    plan.options.validation_samples = std::min<int64_t>(5000, train.size() / 12);
  plan.validation_samples = plan.options.validation_samples;
  plan.train_samples = train.size() - plan.validation_samples;
  plan.test_samples = test.size();
  if (plan.train_samples < 1) {
    throw usage_error(
        {.refused = "--validation-samples",
         .rule = concat("some of the ", train.size(), " samples are left for training"),
         .value = std::to_string(plan.validation_samples)});
  }
  const int64_t per_rank = (plan.train_samples + around.world_size - 1) / around.world_size;
  plan.steps_per_epoch = (per_rank + plan.batch_per_rank - 1) / plan.batch_per_rank;
  plan.total_steps = plan.steps_per_epoch * options.epochs;
  if (options.max_steps > 0) plan.total_steps = std::min(plan.total_steps, options.max_steps);
  return plan;
}

Json to_json(const TrainPlan& plan) {
  const TrainOptions& options = plan.options;
  return {{"model", options.model},
          {"data", options.data},
          {"data_dir", options.data_dir.string()},
          {"strategy", options.strategy},
          {"backend", options.backend},
          {"optimizer", options.optimizer},
          {"lr", plan.lr},
          {"epochs", options.epochs},
          {"batch_size", options.batch_size},
          {"validation_samples", plan.validation_samples},
          {"max_steps", options.max_steps},
          {"seed", options.seed},
          {"workers", options.workers},
          {"checkpoint_every", options.checkpoint_every},
          {"keep_checkpoints", options.keep_checkpoints},
          {"log_every", options.log_every},
          {"world_size", plan.world_size},
          {"batch_per_rank", plan.batch_per_rank},
          {"train_samples", plan.train_samples},
          {"test_samples", plan.test_samples},
          {"steps_per_epoch", plan.steps_per_epoch},
          {"total_steps", plan.total_steps}};
}

void take_over(const Json& plan, const std::vector<std::string>& said, TrainOptions& options) {
  const auto is_said = [&](const char* name) {
    return std::find(said.begin(), said.end(), name) != said.end();
  };
  std::vector<std::string> differences;
  // Options that shape the numbers must be as before; the others are taken over unless they were
  // said anew.
  const auto fixed = [&](const char* name, auto& value) {
    using Value = std::remove_reference_t<decltype(value)>;
    const Value before = plan.at(name).get<Value>();
    if (is_said(name) && value != before)
      differences.push_back(concat(name, " was ", before, ", now ", value));
    value = before;
  };
  const auto free = [&](const char* name, auto& value) {
    if (!is_said(name)) value = plan.at(name).get<std::remove_reference_t<decltype(value)>>();
  };
  fixed("model", options.model);
  fixed("data", options.data);
  fixed("optimizer", options.optimizer);
  fixed("batch_size", options.batch_size);
  fixed("validation_samples", options.validation_samples);
  fixed("seed", options.seed);
  std::string data_dir = options.data_dir.string();
  free("data_dir", data_dir);
  options.data_dir = data_dir;
  free("backend", options.backend);
  double lr = options.lr.value_or(0);
  free("lr", lr);
  options.lr = lr;
  free("epochs", options.epochs);
  free("max_steps", options.max_steps);
  free("checkpoint_every", options.checkpoint_every);
  free("keep_checkpoints", options.keep_checkpoints);
  free("log_every", options.log_every);
  if (!differences.empty()) {
    throw usage_error({.refused = "--resume",
                       .rule = "what shapes the numbers stays as it was",
                       .value = join(differences, "; "),
                       .hint = "leave these flags away, or start a new run"});
  }
}

std::string explain(const TrainPlan& plan) {
  const auto& options = plan.options;
  const auto& shape = plan.spec.sample_shape;
  return concat(
      "model       ",
      options.model,
      "\n",
      "data        ",
      options.data,
      ": ",
      plan.train_samples,
      " to train, ",
      plan.validation_samples,
      " to validate, ",
      plan.test_samples,
      " to test, ",
      shape[0],
      " x ",
      shape[1],
      " x ",
      shape[2],
      ", ",
      plan.spec.classes,
      " classes\n",
      "optimizer   ",
      options.optimizer,
      ", learning rate ",
      plan.lr,
      "\n",
      "strategy    ",
      options.strategy,
      " on ",
      plan.world_size,
      plan.world_size == 1 ? " rank" : " ranks",
      ", backend ",
      options.backend,
      "\n",
      "batch       ",
      options.batch_size,
      " = ",
      plan.world_size,
      " x ",
      plan.batch_per_rank,
      "\n",
      "steps       ",
      plan.steps_per_epoch,
      " per epoch, ",
      plan.total_steps,
      " in all (",
      options.epochs,
      " epochs)\n",
      "workers     ",
      options.workers,
      " per rank\n",
      "checkpoints at each epoch's end",
      options.checkpoint_every > 0 ? concat(" and every ", options.checkpoint_every, " steps") : "",
      ", the last ",
      options.keep_checkpoints,
      " kept\n",
      "seed        ",
      options.seed,
      "\n");
}

}  // namespace muster::train
