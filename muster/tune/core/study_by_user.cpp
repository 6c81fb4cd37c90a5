// What users order of single trials: Note [Trials that a user holds].
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/core/study_core.h"
#include "muster/tune/core/study_state.h"

namespace muster::tune {
namespace {

/// "COMPLETE", "paused by the scheduler", "running": what a refused order found.
std::string found(const Trial& trial) {
  switch (trial.state) {
    case TrialState::kRunning:
      return "it runs";
    case TrialState::kPending:
      return "it waits for a slot or a retry";
    case TrialState::kPaused:
      return trial.held ? "it is paused" : "the scheduler has paused it";
    default:
      return concat("it is over, ", optuna_name(trial.state));
  }
}

Error refused(int64_t number, std::string_view what, std::string rule, std::string value) {
  return usage_error({.refused = concat("trial ", number, " cannot be ", what),
                      .rule = std::move(rule),
                      .value = std::move(value)});
}

/// Throws a usage error for a trial that is not there.
void require_there(std::span<const Trial> trials,
                   int64_t number,
                   std::string_view what,
                   std::string rule) {
  if (number >= 0 && number < static_cast<int64_t>(trials.size())) return;
  throw refused(number,
                what,
                std::move(rule),
                concat(trials.size(), trials.size() == 1 ? " trial" : " trials"));
}

}  // namespace

void StudyCore::stop_trial(int64_t number, const std::string& reason, double now_s) {
  const std::string rule = "it is there and not over";
  require_there(trials(), number, "stopped", rule);
  Trial& trial = impl_->trials[static_cast<size_t>(number)];
  if (is_over(trial.state)) throw refused(number, "stopped", rule, found(trial));
  impl_->stop_trial(trial, reason, now_s);
}

void StudyCore::Impl::stop_trial(Trial& trial, const std::string& reason, double now_s) {
  if (trial.state != TrialState::kRunning) {
    return end_attempt(
        trial,
        {.attempt = trial.attempt, .message = reason, .then = TrialState::kPruned, .by_user = true},
        now_s);
  }
  mark_stopped(trial, reason);
  emit(trial.number, now_s, StopOrdered{.reason = reason});
}

void StudyCore::Impl::mark_stopped(Trial& trial, const std::string& reason) {
  TrialRecord& record = records.at(trial.number);
  record.decision = {.action = Action::kStop, .reason = reason};
  record.by_user = true;
  trial.reason = reason;
}

bool StudyCore::Impl::is_about_to_pause(int64_t number) const {
  const auto record = records.find(number);
  return record != records.end() && record->second.pause.has_value();
}

void StudyCore::pause_trial(int64_t number, const std::string& reason, double now_s) {
  const std::string rule = "it runs, or waits for a retry";
  require_there(trials(), number, "paused", rule);
  Trial& trial = impl_->trials[static_cast<size_t>(number)];
  if (trial.state != TrialState::kRunning && trial.state != TrialState::kPending)
    throw refused(number, "paused", rule, found(trial));
  if (impl_->is_about_to_pause(number))
    throw refused(number, "paused", "once is enough", "it is paused at its next report");
  impl_->pause_trial(trial, reason, now_s);
}

void StudyCore::Impl::pause_trial(Trial& trial, const std::string& reason, double now_s) {
  if (trial.state != TrialState::kRunning) {
    return end_attempt(
        trial,
        {.attempt = trial.attempt, .message = reason, .then = TrialState::kPaused, .by_user = true},
        now_s);
  }
  records.at(trial.number).pause = reason;
  emit(trial.number, now_s, PauseOrdered{.reason = reason});
}

void StudyCore::continue_trial(int64_t number, const std::string& reason, double now_s) {
  const std::string rule = "a user has paused it";
  require_there(trials(), number, "continued", rule);
  Trial& trial = impl_->trials[static_cast<size_t>(number)];
  if (!trial.held && !impl_->is_about_to_pause(number))
    throw refused(number, "continued", rule, found(trial));
  impl_->continue_trial(trial, reason, now_s);
}

void StudyCore::Impl::continue_trial(Trial& trial, const std::string& reason, double now_s) {
  records.at(trial.number).pause.reset();
  if (trial.held) {
    trial.held = false;
    --held_count;
    trial.state = TrialState::kPending;
    trial.reason = reason;
    trial.due_s = now_s;
    retries.insert({trial.due_s, trial.number});
  }
  emit(trial.number, now_s, ContinueOrdered{.reason = reason});
}

}  // namespace muster::tune
