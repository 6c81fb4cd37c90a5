// Reports of a study's trials, and what they are answered.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <compare>
#include <cstddef>
#include <iterator>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/core/study_core.h"
#include "muster/tune/core/study_state.h"

namespace muster::tune {
namespace {

std::vector<std::string> names_of(const Metrics& metrics) {
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) names.push_back(name);
  return names;
}

std::string on_one_line(std::string_view text) { return join(split(text, '\n'), "; "); }

std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) {
      words.emplace_back();
    } else {
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  std::erase(words, "");
  return words;
}

/// Letters that two words have in common if one is short for the other, as "val" for "validate"; else 0.
size_t in_common(std::string_view a, std::string_view b) {
  const size_t shorter = std::min(a.size(), b.size());
  const bool is_short_for = shorter >= 3 && a.substr(0, shorter) == b.substr(0, shorter);
  return a == b || is_short_for ? shorter : 0;
}

/// How much two names say the same, by what counts first.
struct Likeness {
  size_t last = 0;  ///< letters of what is measured, which stands last: "validate_accuracy"
  size_t all = 0;
  ptrdiff_t more = 0;  ///< words less one, negative: of "loss" and "train_loss" the plain one

  auto operator<=>(const Likeness&) const = default;
};

Likeness likeness(std::string_view name, std::string_view other) {
  const std::vector<std::string> words = words_of(name), others = words_of(other);
  if (words.empty() || others.empty()) return {};
  size_t all = 0;
  for (const std::string& word : words) {
    size_t most = 0;
    for (const std::string& one : others) most = std::max(most, in_common(word, one));
    all += most;
  }
  if (all == 0) return {};
  return {in_common(words.back(), others.back()), all, 1 - std::ssize(others)};
}

/// A slip of the hand, else the name with most words in common; nothing if none has any.
std::optional<std::string> closest(const std::string& name,
                                   const std::vector<std::string>& reported) {
  if (auto near = nearest(name, reported)) return near;
  std::optional<std::string> best;
  Likeness most;
  for (const std::string& other : reported) {
    const Likeness alike = likeness(name, other);
    if (alike.all > 0 && alike > most) most = alike, best = other;
  }
  return best;
}

/// Either side may be the misspelt one.
std::string how_to_name(const std::string& metric, const std::vector<std::string>& reported) {
  std::vector<std::string> quoted;
  for (const std::string& name : reported) quoted.push_back(concat('"', name, '"'));
  const auto other = closest(metric, reported);
  return concat("let the trial report \"",
                metric,
                "\", or the study have metric = ",
                other ? concat('"', *other, '"') : join(quoted, " or "));
}

}  // namespace

int64_t StudyCore::Impl::time_of(const Trial& trial, const Report& report) const {
  if (report.step) return *report.step;
  const Attempt& attempt = records.at(trial.number).attempt;
  return attempt.base_t + attempt.counted + 1;
}

/// A misspelt metric is found at the first report, not after hours.
void StudyCore::Impl::check_metrics(const Trial& trial, const Report& report) const {
  if (trial.reports > 0) return;
  const auto names = names_of(report.metrics);
  if (spec.goals.several()) return check_objectives(trial, names);
  if (find_metric(report.metrics, spec.metric) != nullptr) return check_stop_metrics(trial, names);
  throw usage_error({.refused = concat("the first report of trial ", trial.number),
                     .rule = concat("it has the study's metric \"", spec.metric, '"'),
                     .value = join(names, ", "),
                     .hint = names.empty() ? "" : how_to_name(spec.metric, names)});
}

/// Some may be measured at the end alone, but what the scheduler goes by.
void StudyCore::Impl::check_objectives(const Trial& trial,
                                       const std::vector<std::string>& reported) const {
  if (goes_by_one) return check_watched(trial, reported);
  std::vector<std::string> wanted;
  for (const Objective& objective : spec.goals.objectives) {
    if (std::ranges::find(reported, objective.metric) != reported.end())
      return check_stop_metrics(trial, reported);
    wanted.push_back(objective.metric);
  }
  throw usage_error({.refused = concat("the first report of trial ", trial.number),
                     .rule = concat("it has one of the study's objectives: ", join(wanted, ", ")),
                     .value = join(reported, ", "),
                     .hint = reported.empty() ? "" : suggestion(reported[0], wanted)});
}

void StudyCore::Impl::check_watched(const Trial& trial,
                                    const std::vector<std::string>& reported) const {
  if (std::ranges::find(reported, watched.metric) != reported.end())
    return check_stop_metrics(trial, reported);
  throw usage_error(
      {.refused = concat("the first report of trial ", trial.number),
       .rule = concat("it has the metric \"", watched.metric, "\" that the scheduler goes by"),
       .value = join(reported, ", "),
       .hint = suggestion(watched.metric, reported)});
}

/// That a metric by which the study goes is no finite number, if that fails the trial.
std::optional<Decision> StudyCore::Impl::not_finite(const Metrics& metrics, int64_t t) const {
  if (!spec.nan_is_failure) return std::nullopt;
  std::vector<std::string> names = {spec.metric};
  for (const Objective& objective : spec.goals.objectives) names.push_back(objective.metric);
  for (const std::string& name : names) {
    const double* metric = find_metric(metrics, name);
    if (metric == nullptr || std::isfinite(*metric)) continue;
    return Decision{.action = Action::kStop,
                    .reason = concat(name, " is ", shortest(*metric), " at step ", t)};
  }
  return std::nullopt;
}

/// As Ray does: a criterion that never holds because nobody reports its metric stops nothing.
void StudyCore::Impl::check_stop_metrics(const Trial& trial,
                                         const std::vector<std::string>& reported) const {
  for (const std::string& metric : rules.metrics()) {
    if (std::find(reported.begin(), reported.end(), metric) != reported.end()) continue;
    throw usage_error({.refused = concat("the first report of trial ", trial.number),
                       .rule = concat("it has the metric \"", metric, "\" of a stop criterion"),
                       .value = join(reported, ", "),
                       .hint = suggestion(metric, reported)});
  }
}

Decision StudyCore::report(int64_t number, const Report& report, double now_s) {
  Trial& trial = impl_->running(number);
  TrialRecord& record = impl_->records.at(number);
  if (report.sequence > 0 && report.sequence <= record.attempt.sequence) return record.decision;
  try {
    if (report.checkpoint.empty() || !impl_->folders.has_places_before())
      return impl_->take_report(trial, record, report, now_s);
    Report here = report;  // as who replays it
    impl_->folders.put_right(here.checkpoint);
    return impl_->take_report(trial, record, here, now_s);
  } catch (const Error& error) {
    refuse_report(number, error.what());
    throw;
  }
}

void StudyCore::refuse_report(int64_t number, const std::string& why) {
  impl_->running(number);
  impl_->records.at(number).attempt.refused = on_one_line(why);
  impl_->unlogged.insert(number);
}

Decision StudyCore::Impl::take_report(Trial& trial,
                                      TrialRecord& record,
                                      const Report& report,
                                      double now_s) {
  Attempt& attempt = record.attempt;
  // It ought to have ended.
  if (record.decision.action != Action::kContinue) return record.decision;
  const int64_t t = time_of(trial, report);
  if (t <= attempt.t) {
    throw usage_error({.refused = concat("a report of trial ", trial.number),
                       .rule = concat("its step is above the one before, ", attempt.t),
                       .value = concat("step=", t)});
  }
  check_metrics(trial, report);
  if (attempt.asked) renew_lease(trial, now_s);
  attempt.t = t;
  attempt.sequence = std::max(report.sequence, attempt.sequence);
  if (!report.step) ++attempt.counted;
  attempt.refused.clear();
  if (trial.reports > 0 && t <= trial.last_t) {
    // A restarted trial repeats itself: what was decided here is known, it went on.
    unlogged.insert(trial.number);
    if (!report.checkpoint.empty())
      save_checkpoint(
          trial, {.attempt = trial.attempt, .t = t, .checkpoint = report.checkpoint}, now_s);
    return {};
  }
  unlogged.erase(trial.number);
  record.decision = decide(trial, record, report, t, now_s);
  emit(trial.number,
       now_s,
       Reported{.attempt = trial.attempt, .t = t, .report = report, .decision = record.decision});
  return record.decision;
}

/// By the log: who goes on from there after a kill would else begin further back, perhaps with a
/// checkpoint that its program has removed since.
void StudyCore::Impl::save_checkpoint(Trial& trial, CheckpointSaved saved, double now_s) {
  come_to(trial, {.checkpoint = saved.checkpoint, .t = saved.t});
  emit(trial.number, now_s, std::move(saved));
}

Decision StudyCore::Impl::decide(
    Trial& trial, TrialRecord& record, const Report& report, int64_t t, double now_s) {
  const double* metric = find_metric(report.metrics, spec.metric);
  const double* of_scheduler = find_metric(report.metrics, watched.metric);
  if (!report.checkpoint.empty()) come_to(trial, {.checkpoint = report.checkpoint, .t = t});
  Decision decision;
  if (of_scheduler != nullptr) {
    decision = scheduler->on_report(trial.number, t, score_of(*of_scheduler, watched.mode));
  } else if (goes_by_one) {
    decision.reason = concat("no ", watched.metric, " in the report at ", t);
  }
  if (metric != nullptr) {
    searcher.reported(trial.number, t, score_of(*metric, spec.mode));
    take_metric(*metric, spec.mode, trial.last_metric, trial.best_metric);
  }
  if (auto not_a_number = not_finite(report.metrics, t)) {
    record.fails = Failure::kNan;
    decision = std::move(*not_a_number);
  }
  take_metrics(spec.goals, report.metrics, trial.goals);
  note_so_far(trial);
  trial.last_t = t;
  ++trial.reports;
  ++reports;
  trial.last_metrics = report.metrics;
  const double run_s = trial.run_s + now_s - record.attempt.started_s;
  auto rule = rules.on_report(trial.number, t, report.metrics, run_s);
  if (rule && !record.fails) decision = std::move(*rule);
  if (record.pause && decision.action == Action::kContinue) {
    const bool anew = trial.checkpoint.empty();
    decision = {
        .action = Action::kPause,
        .reason = concat(*record.pause, anew ? "; without a checkpoint it begins anew" : "")};
    record.by_user = true;
  }
  if (decision.action == Action::kPause && !record.by_user && trial.checkpoint.empty()) {
    record.fails = Failure::kCrash;
    decision = {.action = Action::kStop,
                .reason = concat("cannot be paused at ",
                                 t,
                                 " by scheduler ",
                                 spec.scheduler,
                                 ": its report has no checkpoint to go on from")};
  }
  if (!decision.reason.empty()) trial.reason = decision.reason;
  return decision;
}

}  // namespace muster::tune
