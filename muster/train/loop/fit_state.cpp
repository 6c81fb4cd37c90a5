// What of a run is in its checkpoints: taken up and saved. See Note [Exact resume].
#include <iterator>
#include <map>
#include <set>

#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/train/checkpoints/model_state.h"
#include "muster/train/loop/training.h"
#include "muster/train/replicas/first_rank.h"

namespace muster::train {
namespace {

// Files in a checkpoint.
constexpr const char* kCommHook = "comm_hook";

void append(tensor::NamedTensorList own, tensor::NamedTensorList& all) {
  all.insert(all.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
}

constexpr const char* kGuardKey = "memory";    // of a run with --on-oom split
constexpr const char* kTimeKey = "elapsed_s";  // of a run with --max-time
constexpr const char* kEndedKey = "ended_at";  // of an end that is said: its step
constexpr const char* kLastKey = "last_step";  // what a row has of it
constexpr const char* kDeviceKey = "device";   // kind of device of a checkpoint; none: the CPU

std::string other_device_line(const std::string& before, const std::string& now) {
  return concat("the checkpoint is of a run on ",
                before,
                ", and this one is on ",
                now,
                ": random numbers are drawn anew from the seed and the step, and sums round "
                "otherwise");
}

}  // namespace

namespace detail {

void Trainer::restore(const Checkpoint& checkpoint) {
  groups_->check_resume(checkpoint.loop.value("groups", Json()));
  parts_[0]->strategy().load_weights(match_model_state(module(), checkpoint.model));
  for (const auto& part : parts_) part->load_state(checkpoint.optimizer);
  load_hooks(checkpoint);
  load_average(checkpoint);
  position_ = checkpoint.position;
  epoch_meter_.load(checkpoint.loop.at("epoch"));
  window_meter_.load(checkpoint.loop.at("window"));
  schedule_->load_state(checkpoint.loop.at("schedule"));
  load_guard(checkpoint.loop.value(kGuardKey, Json()));
  load_scalers(checkpoint.loop.value("scaler", Json::object()));
  best_.load_state(checkpoint.loop.at("best"));
  if (checkpoint.loop.contains("task"))
    of_task("load_state", [&] { task_->load_state(checkpoint.loop.at("task")); });
  best_step_ = checkpoint.best_step;
  ended_at_ = checkpoint.loop.value(kEndedKey, int64_t{-1});
  load_last_step(checkpoint.loop.value(kLastKey, Json::object()));
  const std::string kind = c10::DeviceTypeName(device_.type(), /*lower_case=*/true);
  const std::string before = checkpoint.loop.value(kDeviceKey, std::string("cpu"));
  restore_generator(generator_, checkpoint, group_, plan_.options.seed, kind == before);
  if (kind != before) log_.note(other_device_line(before, kind));
  const std::string strategy = checkpoint.plan.value("strategy", plan_.options.strategy);
  if (strategy != plan_.options.strategy) {
    log_.note(concat("the checkpoint is of a run by --strategy ",
                     strategy,
                     ", and this one goes on by ",
                     plan_.options.strategy));
  }
  before_s_ = checkpoint.loop.value(kTimeKey, 0.0);
  last_saved_ = started_after_ = position_.step;
}

/// What a row of the last step has, that the next process may have to write.
Json Trainer::last_step() const {
  Json last = {{"lr", optimizer().lr()}};
  if (gradient_norm_) last["gradient_norm"] = *gradient_norm_;
  return last;
}

void Trainer::load_last_step(const Json& last) {
  if (last.contains("lr")) optimizer().set_lr(last.at("lr").get<double>());
  if (last.contains("gradient_norm")) gradient_norm_ = last.at("gradient_norm").get<double>();
}

/// Whole on rank 0; the other ranks may have less. Collective where a strategy shards weights.
tensor::NamedTensorList Trainer::whole_parameters() {
  Strategy& strategy = parts_[0]->strategy();
  tensor::NamedTensorList parameters;
  std::set<const void*> seen;  // of tied ones a strategy knows the first name
  for (const auto& item : module().named_parameters()) {
    if (!strategy.shards_weights() || seen.insert(item.value().unsafeGetTensorImpl()).second)
      parameters.emplace_back(item.key(), item.value());
  }
  return strategy.shards_weights() ? strategy.whole_state(std::move(parameters)) : parameters;
}

/// One part's scale as it is, those of several by their names.
Json Trainer::scaler_state() const {
  if (parts_.size() == 1) return parts_[0]->scaler().state();
  Json all = Json::object();
  for (const auto& part : parts_) all[part->name()] = part->scaler().state();
  return all;
}

int64_t Trainer::skipped_steps() const {
  int64_t all = 0;
  for (const auto& part : parts_) all += part->scaler().skipped_steps();
  return all;
}

void Trainer::load_scalers(const Json& state) {
  if (parts_.size() == 1) return parts_[0]->scaler().load_state(state);
  for (const auto& part : parts_)
    part->scaler().load_state(state.value(part->name(), Json::object()));
}

/// What a communication hook kept is of use to that very hook alone.
void Trainer::load_hooks(const Checkpoint& checkpoint) {
  const auto saved = checkpoint.more.find(kCommHook);
  const std::string told = checkpoint.plan.value("comm_hook", "none");
  const bool is_same = checkpoint.plan.value(kHookOfState, told) == plan_.options.comm_hook;
  const tensor::NamedTensorList none;
  for (const auto& part : parts_) {
    part->load_hook_state(is_same && saved != checkpoint.more.end() ? saved->second : none,
                          group_,
                          checkpoint.world_size);
  }
}

void Trainer::make_average() {
  const FitOptions& options = plan_.options;
  if (options.ema_decay == 0) return;
  Strategy& strategy = parts_[0]->strategy();
  if (strategy.shards_weights()) {
    ema_.emplace(
        module(),
        options.ema_decay,
        options.ema_buffers == "average",
        [&] { return strategy.own_state(model_state(module())); },
        [&] { strategy.weights_written(); });
    // Whole averages are put together in the module, where they would be rounded.
    if (ema_->has_short_weights())
      throw usage_error(
          {.refused = concat("--ema-decay with strategy ", plan_.strategy_name),
           .rule = "averages of weights in parts have the weights' dtype, of 32 bits or more",
           .value = "weights of 16 bits",
           .hint = "take --strategy zero2, or leave --ema-decay away"});
  } else {
    ema_.emplace(module(), options.ema_decay, options.ema_buffers == "average");
  }
  log_.note(concat("averaged weights: ",
                   human_bytes(static_cast<uint64_t>(ema_->bytes())),
                   " more on each rank; validation and test are of the averages"));
}

void Trainer::load_average(const Checkpoint& checkpoint) {
  if (!ema_) return;
  const auto saved = checkpoint.more.find(std::string(kAverages));
  if (saved == checkpoint.more.end()) {
    throw usage_error({.refused = "--ema-decay",
                       .rule = "a run that averages its weights does so from its start",
                       .value = "the checkpoint has no averages",
                       .hint = plan_.record.contains("weights")  // not a task of one's own
                                   ? "begin a new run with --weights"
                                   : "leave --ema-decay away, or begin a new run"});
  }
  const Json record = checkpoint.loop.value("ema", Json::object());
  const int64_t updates = record.value("updates", int64_t{1});
  Strategy& strategy = parts_[0]->strategy();
  if (!strategy.shards_weights()) return ema_->load(saved->second, updates);
  // Each rank takes its part of them from the module, which then gets its weights again.
  strategy.load_weights(match_model_state(module(), saved->second));
  ema_->take(updates);
  strategy.load_weights(match_model_state(module(), checkpoint.model));
}

/// Whole on rank 0. Collective where a strategy shards weights.
tensor::NamedTensorList Trainer::whole_averages() {
  Strategy& strategy = parts_[0]->strategy();
  if (!strategy.shards_weights()) return ema_->state();
  const c10::NoGradGuard no_grad;
  const WeightAverage::InPlace averages(*ema_);
  tensor::NamedTensorList whole = strategy.whole_state(model_state(module()));
  if (group_.rank() != 0) return {};
  for (auto& [name, tensor] : whole)
    tensor = tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
  return whole;
}

void Trainer::save() {
  hear_all();
  check_weights();
  check_hooks();
  const tensor::NamedTensorList rng = gather_rng_states(group_, generator_);
  if (writer_) is_written();  // so that two states are not in memory at once
  tensor::NamedTensorList optimizer, hooks;
  for (const auto& part : parts_) {
    append(part->state(), optimizer);
    append(part->hook_state(group_), hooks);
  }
  // Before the weights, which may be put together in the same memory.
  tensor::NamedTensorList averages = ema_ ? whole_averages() : tensor::NamedTensorList();
  tensor::NamedTensorList model = parts_[0]->strategy().whole_state(model_state(module()));
  Json of_task = this->of_task("state", [this] { return task_->state(); });
  if (const int rank = parts_[0]->strategy().seeing_rank(); rank != 0)
    of_task = parse_json(group_.broadcast_text(json_text(of_task), rank), "a task's state");
  for (const auto& part : parts_) part->strategy().settle_record();
  last_saved_ = position_.step;
  const auto place = folder_ != nullptr ? folder_->place() : std::nullopt;
  if (place && *place != folder_->path()) writer_.emplace(*place, plan_.options.keep_checkpoints);
  if (place) {
    Json loop = {{"epoch", epoch_meter_.to_json()},
                 {"window", window_meter_.to_json()},
                 {"schedule", schedule_->state()},
                 {"scaler", scaler_state()},
                 {"best", best_.state()},
                 {"task_name", task_->name()},
                 {"task", std::move(of_task)},
                 {kLastKey, last_step()}};
    if (ended_at_ == position_.step) loop[kEndedKey] = ended_at_;
    if (!groups_->record().is_null()) loop["groups"] = groups_->record();
    if (Json own = parts_[0]->strategy().record(); !own.is_null())
      loop[kStrategyKey] = std::move(own);
    if (plan_.options.max_time > 0) loop[kTimeKey] = log_.seconds();
    if (guard_) loop[kGuardKey] = guard_state();
    if (!device_.is_cpu()) loop[kDeviceKey] = c10::DeviceTypeName(device_.type(), true);
    Json plan = plan_.record;
    plan.update(plan_.carried);
    std::map<std::string, tensor::NamedTensorList> more;
    if (!hooks.empty()) more[kCommHook] = std::move(hooks);
    if (ema_) {
      loop["ema"] = {{"updates", ema_->updates()}};
      more[std::string(kAverages)] = std::move(averages);
    }
    writer_->start({.position = position_,
                    .world_size = group_.world_size(),
                    .global_batch = plan_.options.batch_size,
                    .plan = std::move(plan),
                    .loop = std::move(loop),
                    .best_step = best_step_,
                    .model = std::move(model),
                    .optimizer = std::move(optimizer),
                    .more = std::move(more),
                    .rng = rng});
  }
  on_first_rank(group_, [this] {
    check_folder();
    if (callbacks_.saved && is_written())
      callbacks_.saved({.at = hooks_.here(), .path = writer_->wait()});
  });
}

/// Rank 0: waits for the checkpoint in hand. False if the folder was moved under the writer's hands.
bool Trainer::is_written() {
  try {
    writer_->wait();
    return true;
  } catch (const std::exception&) {
    if (folder_->place() == folder_->path()) throw;
    return false;
  }
}

/// When it returns, the checkpoint in hand is written. Where the folder was moved meanwhile, the run
/// ends, on all ranks, with its state saved in the other place.
void Trainer::settle_folder() {
  bool kept = true;
  on_first_rank(group_, [&] { kept = is_written(); });
  if (!from_first_rank(group_, kept)) save();  // where the folder is now; that ends the run
  on_first_rank(group_, [this] { check_folder(); });
}

/// Rank 0: ends the run if its folder is not where it was. A new one there would be half a run, and
/// whoever moved it looks for the whole in the other place.
void Trainer::check_folder() {
  const auto place = folder_->place();
  if (place == folder_->path()) return;
  if (place) writer_->wait();
  throw folder_->gone(place);
}

}  // namespace detail
}  // namespace muster::train
