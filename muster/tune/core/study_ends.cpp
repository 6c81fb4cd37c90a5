// How attempts and trials of a study end.
#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/core/study_core.h"
#include "muster/tune/core/study_state.h"

namespace muster::tune {
namespace {

constexpr double kLongestBackoffS = 60;
constexpr double kForEver = -1;

}  // namespace

void StudyCore::ended(int64_t number, Failure failure, const std::string& message, double now_s) {
  impl_->finish_attempt(impl_->running(number), failure, message, now_s);
}

void StudyCore::Impl::finish_attempt(Trial& trial,
                                     Failure failure,
                                     const std::string& message,
                                     double now_s) {
  const bool was_stopped = is_stopped();
  end_attempt(trial, outcome(trial, failure, message), now_s);
  if (was_stopped || given_up.empty()) return;
  emit(-1, now_s, TunerNote{.text = concat("stopping: ", given_up)});
}

/// A typo in a command would burn the whole study; one without end would never end. As the log has
/// it, so that all who run trials of the study come to the same.
void StudyCore::Impl::count_failure(const Trial& trial) {
  ++failed;
  if (!given_up.empty()) return;
  const bool none_has = reports == 0 || (spec.goals.any() && !any_results);
  const bool all_fail = spec.give_up_after > 0 && none_has && failed >= spec.give_up_after;
  if (!spec.fail_fast && !all_fail) return;
  const std::string last =
      concat("trial ", trial.number, " failed (", name_of(trial.failure), "): ", trial.reason);
  const char* without = reports == 0 ? " trials failed without one report; "
                                     : " trials failed and none is complete; ";
  given_up = spec.fail_fast ? last : concat(failed, without, last);
}

/// What becomes of a trial whose attempt is gone.
AttemptEnded StudyCore::Impl::outcome(Trial& trial, Failure failure, const std::string& message) {
  const TrialRecord& record = records.at(trial.number);
  AttemptEnded ended{.attempt = trial.attempt, .message = message};
  if (record.fails) {
    ended.failure = *record.fails;
    ended.message = record.decision.reason;
    fail(trial, ended);
  } else if (record.decision.action == Action::kStop) {
    ended.message = record.decision.reason;
    // One that is told that it is done before it has measured all has been stopped early.
    const bool has_all = missing_results(trial).empty();
    ended.then = record.decision.complete && has_all ? TrialState::kComplete : TrialState::kPruned;
    ended.by_user = record.by_user;
  } else if (record.decision.action == Action::kPause) {
    ended.message = record.decision.reason;
    ended.then = TrialState::kPaused;
    ended.by_user = record.by_user;
  } else if (failure == Failure::kInterrupted ||
             (is_stopped() && failure != Failure::kNone && !record.attempt.asked)) {
    ended.failure = Failure::kInterrupted;  // by us: no fault of the trial's
    ended.then = TrialState::kPending;
    // How it took that says less than why it had to end. One that was asked for runs elsewhere, and
    // nobody here has ended it.
    const std::string& why = stopped.empty() ? given_up : stopped;
    if (!why.empty() && !record.attempt.asked)
      ended.message = message.empty() ? why : concat(why, " (", message, ')');
  } else if (!record.attempt.refused.empty() &&
             (failure == Failure::kNone || failure == Failure::kCrash)) {
    // Many a program ends when its report is refused, and well: what it would have said is lost.
    ended.failure = Failure::kCrash;
    ended.then = TrialState::kFailed;  // a further attempt would do the same
    ended.message = record.attempt.refused;
  } else if (failure != Failure::kNone) {
    ended.failure = failure;
    fail(trial, ended);
  } else if (trial.reports == 0) {
    ended.failure = Failure::kCrash;
    ended.then = TrialState::kFailed;
    ended.message = concat("ended without a report of ", spec.metric);
    if (!message.empty()) ended.message += concat(" (", message, ')');
  } else if (const std::string missing = missing_results(trial); !missing.empty()) {
    ended.failure = Failure::kCrash;
    ended.then = TrialState::kFailed;
    std::vector<std::string> reported;
    for (const auto& metric : trial.last_metrics) reported.push_back(metric.first);
    ended.message =
        concat("ended without a number of ", missing, "; it reported ", join(reported, ", "));
  }
  // What ends before the report at which it was to pause is held, too.
  if (ended.then == TrialState::kPending && record.pause) {
    ended.then = TrialState::kPaused;
    ended.retry_in_s = 0;
    ended.by_user = true;
  }
  return ended;
}

void StudyCore::Impl::fail(Trial& trial, AttemptEnded& ended) {
  const FailurePolicy& policy = spec.failures[static_cast<size_t>(ended.failure)];
  const int32_t before = records.at(trial.number).failed[static_cast<size_t>(ended.failure)];
  if (policy.retries != kForEver && before >= policy.retries) {
    ended.then = TrialState::kFailed;
    return;
  }
  ended.then = TrialState::kPending;
  ended.retry_in_s =
      std::min(kLongestBackoffS, policy.backoff_s * std::pow(policy.backoff_factor, before));
}

void StudyCore::Impl::end_attempt(Trial& trial, AttemptEnded ended, double now_s) {
  TrialRecord& record = records.at(trial.number);
  retries.erase({trial.due_s, trial.number});
  leases.erase({record.attempt.lease_end_s, trial.number});
  unlogged.erase(trial.number);
  if (trial.state == TrialState::kRunning) {
    --running_count;
    trial.run_s += now_s - record.attempt.started_s;
  }
  if (trial.state == TrialState::kPaused) --(trial.held ? held_count : paused_count);
  trial.held = false;
  trial.state = ended.then;
  trial.failure = ended.failure;
  // What an attempt before has failed of says nothing of one that ended well.
  if (!ended.message.empty() || ended.then == TrialState::kComplete) trial.reason = ended.message;
  if (ended.failure != Failure::kNone) ++record.failed[static_cast<size_t>(ended.failure)];
  if (ended.then == TrialState::kPending) {
    trial.due_s = now_s + ended.retry_in_s;
    retries.insert({trial.due_s, trial.number});
  }
  if (ended.then == TrialState::kPaused) pause(trial, ended.by_user);
  if (is_over(ended.then)) {
    trial.ended_s = now_s;
    scheduler->on_end(trial.number, trial.state);
    rules.on_end(trial.number);
    const double result = result_of(trial);
    const bool has_failed = trial.state == TrialState::kFailed;
    searcher.told({.number = trial.number,
                   .point = trial.point,
                   .state = trial.state,
                   .score = score_of(result, spec.mode),
                   .step = trial.last_t,
                   .failure = has_failed ? trial.failure : Failure::kNone,
                   .scores = scores_of(trial.goals.results, spec.goals.objectives),
                   .violation = has_failed ? 0 : trial.goals.violation()});
    note_best(trial);
    note_so_far(trial);
    if (has_failed) count_failure(trial);
  }
  emit(trial.number, now_s, std::move(ended));
  if (is_over(trial.state)) records.erase(trial.number);
}

void StudyCore::Impl::pause(Trial& trial, bool by_user) {
  trial.held = by_user;
  if (by_user) {
    ++held_count;
    records.at(trial.number).pause.reset();
    return;
  }
  ++paused_count;
  scheduler->on_pause(trial.number);
  searcher.paused(trial.number);
}

void StudyCore::stop(const std::string& reason, double now_s) {
  impl_->stopped = reason;
  impl_->emit(-1, now_s, TunerNote{.text = concat("stopping: ", reason)});
}

bool StudyCore::learn(const OutsideTrial& trial, double now_s) {
  return impl_->learn(trial, now_s);
}

bool StudyCore::Impl::learn(const OutsideTrial& trial, double now_s) {
  if (trial.point.size() != spec.space.dimensions().size()) {
    throw usage_error({.refused = concat("trial ", trial.number, " of another program"),
                       .rule = "it has a number for each dimension of the space",
                       .value = concat(trial.point.size(), " numbers")});
  }
  if (!trial.results.empty() && trial.results.size() != spec.goals.objectives.size()) {
    throw usage_error({.refused = concat("trial ", trial.number, " of another program"),
                       .rule = "it has a result for each objective",
                       .value = concat(trial.results.size(), " results")});
  }
  if (!outside.insert(trial.number).second) return false;
  searcher.told({.number = outside_number(trial.number),
                 .point = trial.point,
                 .state = trial.state,
                 .score = score_of(trial.metric, spec.mode),
                 .step = trial.step,
                 .failure = trial.state == TrialState::kFailed ? Failure::kCrash : Failure::kNone,
                 .scores = trial.results.empty() ? std::vector<double>()
                                                 : scores_of(trial.results, spec.goals.objectives),
                 .violation = trial.violation});
  emit(-1, now_s, trial);
  return true;
}

void StudyCore::note(const std::string& text, double now_s, bool session) {
  TunerNote note{.text = text, .session = session};
  if (session && impl_->folders.has_moved()) note.folder = impl_->folders.now();
  impl_->emit(-1, now_s, std::move(note));
}

bool StudyCore::has_moved() const { return impl_->folders.has_moved(); }

void StudyCore::note_place(double now_s) {
  const std::string& folder = impl_->folders.now();
  impl_->emit(
      -1, now_s, TunerNote{.text = concat("its trials' files are in ", folder), .folder = folder});
}

void StudyCore::forgive(const std::string& text, double now_s) {
  impl_->emit(-1, now_s, TunerNote{.text = text, .forgives = true});
}

void StudyCore::note_in_vain(int64_t optuna_number, const std::string& why, double now_s) {
  impl_->emit(-1,
              now_s,
              TunerNote{.text = concat("Optuna's trial ", optuna_number, " waits in vain: ", why),
                        .in_vain = optuna_number});
}

}  // namespace muster::tune
