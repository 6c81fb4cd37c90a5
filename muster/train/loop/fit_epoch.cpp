// An epoch of fit(): its steps, what comes between them, its end, and the test.
#include <algorithm>
#include <thread>

#include "muster/base/host.h"
#include "muster/base/json.h"
#include "muster/tensor/device/generators.h"
#include "muster/train/checkpoints/checkpoint.h"
#include "muster/train/checkpoints/model_state.h"
#include "muster/train/loop/evaluate.h"
#include "muster/train/loop/run_start.h"
#include "muster/train/loop/task_parts.h"
#include "muster/train/loop/training.h"
#include "muster/train/progress/messages.h"
#include "muster/train/replicas/first_rank.h"

namespace muster::train::detail {

Trainer::Step Trainer::train_epoch() {
  log_.begin_epoch();
  if (callbacks_.epoch_began) {
    HookPlace at = hooks_.here();
    at.epoch = position_.epoch + 1;
    callbacks_.epoch_began(at);
  }
  groups_->train_mode();
  batches_.begin(loader_->epoch(position_.epoch, position_.samples));
  const Step steps = train_steps();
  loader_stats_ += batches_.stats();
  const bool is_whole = position_.samples >= plan_.samples_per_epoch;
  return steps == Step::kDone && is_whole ? end_epoch() : steps;
}

Trainer::Step Trainer::train_steps() {
  while (position_.samples < plan_.samples_per_epoch) {
    if (finished()) return Step::kDone;  // max_steps or max_time inside the epoch
    train_step();
    if (stop_wished_) return Step::kStopped;
  }
  return Step::kDone;
}

/// Of the rank that waited longest. Collective.
void Trainer::tell_loader_verdict() {
  std::vector<data::LoaderStats> ranks;
  std::vector<int64_t> cores;
  std::vector<std::string> hosts;
  const Json own = {loader_stats_.elapsed_s,
                    loader_stats_.waited_s,
                    loader_stats_.first_wait_s,
                    std::max<int64_t>(1, std::thread::hardware_concurrency()),
                    host_name()};
  for (const std::string& told : group_.all_gather_text(json_text(own))) {
    const Json time = parse_json(told, "a rank's loader time");
    ranks.push_back({.elapsed_s = time[0].get<double>(),
                     .waited_s = time[1].get<double>(),
                     .first_wait_s = time[2].get<double>()});
    cores.push_back(time[3].get<int64_t>());
    hosts.push_back(time[4].get<std::string>());
  }
  const size_t longest = longest_wait(ranks);
  const std::string verdict =
      loader_verdict(ranks,
                     {.workers = plan_.options.workers,
                      .cores = cores[longest],
                      .local_ranks = std::ranges::count(hosts, hosts[longest])});
  if (!verdict.empty()) log_.note(verdict);
}

void Trainer::after_step(int64_t samples) {
  ++position_.step;
  position_.samples += samples;
  record_heard();
  note_memory();
  if (owes_epoch_end()) return hear_all();  // the epoch's end does both
  if (is_validated_after_step()) {
    validate();
    groups_->train_mode();
  }
  const int64_t every = plan_.options.checkpoint_every;
  if (best_step_ == position_.step || (every > 0 && position_.step % every == 0)) save();
}

/// What no row and no line has said yet of a run that --max-steps or --max-time ends, or that is
/// short. See Note [Rows of an end].
void Trainer::end_inside_epoch() {
  if (ended_at_ != position_.step) {  // else an earlier process has said it
    ended_at_ = position_.step;
    tell_end_inside_epoch();
    if (position_.samples > 0 && validated_ != position_.step && !is_validated_after_step())
      log_.note(epoch_line(plan_, position_, epoch_meter_.metrics(), {}, scaler()));
  }
  const bool has_row = position_.step == started_after_ && log_.has_train_row();
  if (position_.step < plan_.options.log_every && !window_meter_.empty() && !has_row)
    write_train_row(optimizer().lr());
}

/// Who judges the run by its epochs is told of one that --max-steps has cut short.
void Trainer::tell_end_inside_epoch() {
  if (position_.samples == 0) return;
  if (!from_first_rank(group_, static_cast<bool>(callbacks_.ended_inside_epoch))) return;
  EpochEnd end{.epoch = position_.epoch + 1, .train = epoch_meter_.metrics()};
  if (is_validated()) end.validation = validation_to_tell();
  save();
  on_first_rank(group_, [&] {
    end.checkpoint = writer_->wait();
    callbacks_.ended_inside_epoch(end);
  });
  check_hooks();
}

void Trainer::write_train_row(double lr) {
  log_.train(position_, window_meter_.metrics(), {.lr = lr, .gradient_norm = gradient_norm_});
}

/// Before weights are scored or saved.
void Trainer::check_weights() {
  if (checked_ != position_.step)
    divergence_.check_weights(parts_[0]->strategy().own_state(model_state(module())), here());
  checked_ = position_.step;
}

/// Ends the run on all ranks if a hook of one has thrown. Collective.
void Trainer::check_hooks() {
  const std::optional<Error> failure = hooks_.first_failure();
  if (!failure) return;
  log_.diverged(position_.step, concat(failure->text().refused, ": ", failure->text().rule));
  throw *failure;
}

// Note [A validation that fails]
// A batch of it may not fit, or a sample of it may be no picture, and the epoch before it went well. Its
// state is saved as that of a run that a signal ended in the epoch's last step: one that goes on from there
// begins with the validation. So it is where no other rank has to be asked, for a state is put together by
// all of them, and those of a rank that fails end with it. A validation inside an epoch is not owed by the
// state behind its step, so none is saved there: the run goes on from the checkpoint before.
// Returns the line that says so, else nothing.
std::string Trainer::keep_epoch() noexcept {
  if (group_.world_size() > 1) return "";
  try {
    return save_owed_epoch();
  } catch (...) {  // the error in hand counts more
    return "";
  }
}

/// Of all ranks.
std::string Trainer::save_owed_epoch() {
  if (!owes_epoch_end() || last_saved_ == position_.step) return "";
  save();
  if (!writer_) return "";
  const std::string place = writer_->wait().string();
  return concat("the epoch is saved in ", place, ": --resume begins with its validation");
}

/// What epochs are judged by, or the rate follows, may have had nothing to count in a validation: no sample
/// of a class, say. Ends the run on all ranks alike; the epoch that it was the end of is kept.
double Trainer::judging(const Metrics& seen, const std::string& name) {
  if (const double* value = seen.find(name)) return *value;
  if (const std::string line = save_owed_epoch(); !line.empty()) log_.note(line);
  throw environment_error(
      {.refused = concat("the validation's metric ",
                         name,
                         " after step ",
                         position_.step,
                         " (epoch ",
                         position_.epoch + 1,
                         ")"),
       .rule = "the run is judged by it",
       .value = "nothing was counted: its weight was 0 in every batch",
       .hint =
           concat("--resume with other validation data, or begin a run "
                  "that monitors another metric; ",
                  last_saved_ >= 0 ? concat("the checkpoint of step ", last_saved_, " is intact")
                                   : "no checkpoint was written yet")});
}

/// Of the weights as they are, with a row and a line.
Metrics Trainer::score() {
  hear_all();
  check_weights();
  const auto evaluated = [this] {
    try {
      return evaluate_split(data_.validation, Phase::kValidate);
    } catch (...) {
      if (const std::string line = keep_epoch(); !line.empty()) log_.note(line);
      throw;
    }
  };
  const Evaluation seen = evaluated();
  log_.evaluated("validate", position_, seen.metrics);
  divergence_.check_evaluation(seen, Phase::kValidate, here());
  log_.note(epoch_line(plan_, position_, epoch_meter_.metrics(), seen.metrics, scaler()));
  validated_ = position_.step;
  validation_ = seen.metrics;
  return seen.metrics;
}

/// Scores the weights, which may be the best so far.
Metrics Trainer::validate() {
  const Metrics metrics = score();
  const double judged = judging(metrics, plan_.monitored);
  const std::string followed(schedule_->metric());
  if (owes_epoch_end() && !followed.empty()) judging(metrics, followed);
  if (best_.after_epoch(judged)) best_step_ = position_.step;
  return metrics;
}

/// Which epoch was the best and whether patience is at its end do not hang on it: the run ends as one
/// that nobody judges, and one that goes on has made no such validation.
Metrics Trainer::validation_to_tell() {
  if (validated_ == position_.step) return validation_;
  if (!is_validated_after_step()) return score();
  return evaluate_split(data_.validation, Phase::kValidate).metrics;  // its row is there
}

Trainer::Step Trainer::end_epoch() {
  check_weights();
  if (plan_.options.tensorboard == "all") {
    log_.weights(whole_parameters(), position_);
  }
  EpochEnd end{.train = epoch_meter_.metrics(),
               .is_validated_later = is_validated() && !is_validated_now()};
  if (is_validated_now()) {
    end.validation = validate();
    const std::string_view metric = schedule_->metric();
    if (!metric.empty()) schedule_->after_epoch(end.validation[metric]);
  } else {
    log_.note(epoch_line(plan_, position_, end.train, {}, scaler()));
  }
  ++position_.epoch;
  position_.samples = 0;
  epoch_meter_ = Meter(metrics_);
  save();
  bool stops = false;
  on_first_rank(group_, [&] {
    if (!callbacks_.epoch_ended) return;
    end.epoch = position_.epoch;
    end.checkpoint = writer_->wait();
    stops = callbacks_.epoch_ended(end);
  });
  check_hooks();
  return from_first_rank(group_, stops) && !finished() ? Step::kStopped : Step::kDone;
}

/// --num-sanity-val-steps: whether the validation runs at all, before anything is written. What it
/// comes to counts for nothing, and the training is as it is without.
void Trainer::try_validation() {
  const int64_t batches = plan_.options.num_sanity_val_steps;
  if (batches == 0 || resume_ != nullptr || !is_validated()) return;
  const tensor::GeneratorAsItWas generator(generator_);
  evaluate(*task_,
           first_batches(data_.validation, plan_, batches),
           group_,
           evaluate_options(Phase::kValidate));
}

EvaluateOptions Trainer::evaluate_options(Phase phase) {
  const std::string smaller = "take a smaller --eval-batch-size";
  return {.batch_size = plan_.options.eval_batch_size,
          .memory_hint =
              phase == Phase::kTest
                  ? smaller + ": the run is trained and saved, and --resume makes the test alone"
                  : smaller + ", or another --device",
          .more_on_memory = [this, smaller] { return report_of_evaluation(smaller); },
          .workers = plan_.options.workers,
          .loader_timeout_s = plan_.options.loader_timeout,
          .precision = plan_.precision.kind,
          .phase = phase,
          .step = position_.step,
          .epoch = position_.epoch,
          .ranks_per_replica = plan_.ranks_per_replica,
          .device = device_,
          .strategy = &parts_[0]->strategy()};
}

/// Of the averaged weights, where there are some.
Evaluation Trainer::evaluate_split(const std::shared_ptr<const data::Dataset>& split, Phase phase) {
  std::optional<WeightAverage::InPlace> averages;
  if (ema_) averages.emplace(*ema_);
  Evaluation seen = evaluate_shown(
      *task_,
      split,
      group_,
      evaluate_options(phase),
      [&](int64_t done, int64_t batches, const Metrics& metrics) {
        log_.progress(std::string(name_of(phase)), position_, done, batches, metrics);
      });
  if (callbacks_.evaluated)
    callbacks_.evaluated({.at = hooks_.here(), .phase = phase, .metrics = seen.metrics});
  return seen;
}

void Trainer::load_best() {
  if (best_step_ < 0) return log_.note("no epoch was the best: the last weights are tested");
  settle_folder();  // else what was just saved would be lost with the error of what is not there
  const auto read = [this] { return read_best(output_, best_step_); };
  if (!ema_) {
    return load_on_all_ranks(module(), group_, read, [this](const tensor::LoadedTensor& tensor) {
      parts_[0]->strategy().load_weights({tensor});
    });
  }
  Strategy& strategy = parts_[0]->strategy();
  if (strategy.shards_weights()) {
    const auto averages = [&] {
      Checkpoint saved = read();
      saved.model = std::move(saved.more[std::string(kAverages)]);
      return saved;
    };
    load_on_all_ranks(module(), group_, averages, [&](const tensor::LoadedTensor& tensor) {
      strategy.load_weights({tensor});
    });
    return ema_->take(ema_->updates());
  }
  on_first_rank(group_, [&] { load_average(read()); });
  for (const auto& [name, average] : ema_->state()) group_.broadcast(average);
}

void Trainer::test(FitResult& result) {
  if (!data_.test || data_.test->size() == 0) return;
  const bool wants_best = plan_.options.test_weights == "best";
  if (wants_best) load_best();
  const bool is_best = wants_best && best_step_ >= 0;
  result.tested = checkpoint_folder(output_, is_best ? best_step_ : position_.step);
  result.test = evaluate_split(data_.test, Phase::kTest);
  log_.evaluated("test", position_, result.test.metrics);
  divergence_.check_evaluation(result.test, Phase::kTest, here());
}

}  // namespace muster::train::detail
