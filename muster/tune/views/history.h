// What became of each trial, from the log alone: for tables, exports and other programs' files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/json_fwd.h"
#include "muster/tune/core/event.h"
#include "muster/tune/core/study_spec.h"
#include "muster/tune/storage/storage.h"

namespace muster::tune {

/// What is known of a study without its searcher and scheduler.
struct StudyFacts {
  struct Parameter {
    std::string name;
    std::string domain;  ///< "loguniform(1e-4, 1e-1)"; empty for a study of Optuna's
    bool log = false;    ///< of Optuna's: it is drawn by its logarithm
  };
  std::string name;
  std::string metric;
  Mode mode = Mode::kMax;
  StudySpec::Scope scope = StudySpec::Scope::kLast;
  std::vector<Parameter> parameters;
  Goals goals = {};  ///< several objectives, of which metric and mode are the first; constraints
};

/// While the study runs.
StudyFacts facts_of(const StudySpec& spec);

/// Of a stored study. `foreign` names the parameters of one that Optuna made. Throws a usage error
/// for a description that is none.
StudyFacts facts_of(const StudySummary& summary, std::span<const ForeignTrial> foreign = {});

struct TrialHistory {
  struct Row {
    double time_s = 0;  ///< seconds since 1970
    int64_t t = 0;
    double run_s = 0;  ///< of the trial's attempts up to this report
    int32_t attempt = 1;
    Metrics metrics;
  };
  int64_t number = 0;
  bool foreign = false;                  ///< Optuna's; `number` is Optuna's too
  std::optional<int64_t> optuna_number;  ///< of ours, if it is known: read_optuna_numbers
  std::optional<int64_t> again;  ///< of a foreign one: `muster study restart` put that trial in
  bool in_vain = false;          ///< of a foreign one that waits: it can never run; `reason` why
  Values
      values;  ///< the newest ones, in the order of StudyFacts::parameters; nothing: does not apply
  TrialState state = TrialState::kPending;
  int32_t attempts = 0;
  /// An attempt that went on from another trial's checkpoint, or with other values.
  struct Change {
    int32_t attempt = 1;
    int64_t t = 0;       ///< of the trial's newest report before it
    int64_t donor = -1;  ///< -1: from its own checkpoint
    Values before;       ///< what it had until then
  };
  std::vector<Change> changes;
  /// When an attempt ran, in seconds since 1970; to_s is 0 while it runs.
  struct Span {
    double from_s = 0, to_s = 0;
  };
  std::vector<Span> ran;
  Failure failure = Failure::kNone;
  bool by_user = false;  ///< a user has stopped it, or paused it
  bool pausing = false;  ///< a user wants it paused: at its next report
  std::string reason;    ///< of the newest decision or failure
  double started_s = 0, ended_s = 0;
  double run_s = 0;  ///< over all attempts that are gone
  std::vector<Row> rows;
  std::string checkpoint;     ///< its newest, which may be another trial's; empty: none
  double last = 0, best = 0;  ///< of the study's metric; NaN: none
  GoalValues goals = {};      ///< of several objectives, and of constraints
};

/// How people name the trial: "33", and "o33" for Optuna's own, whose number another trial of ours
/// may have.
std::string trial_label(const TrialHistory& trial);

/// "COMPLETE", "PRUNED", "RUNNING", …: Optuna's words; and "PAUSED" and "IN_VAIN", which it has not.
std::string_view state_word(const TrialHistory& trial);

/// Why it is in its state: `reason`, and where there is none who put it in, "added by Optuna"; "waits
/// for a tuner", whoever added it, Optuna or `muster study add`.
std::string reason_text(const TrialHistory& trial);

/// One number per trial of a study: ours as they are, Optuna's own as searchers know them:
/// -1, -2, …
int64_t trial_id(const TrialHistory& trial);

/// Makes histories of events, which may come piece by piece. Throws a usage error for a log that
/// does not fit itself (an event of a trial that was not added, values that are not one per
/// parameter).
class HistoryBuilder {
 public:
  explicit HistoryBuilder(StudyFacts facts) : facts_(std::move(facts)) {}

  void add(const Event& event);
  std::span<const TrialHistory> trials() const { return trials_; }

  /// Frees the trial's reports: `rows` goes on empty, what else is known stays. Without it a log of
  /// millions of reports is in memory.
  void forget_rows(int64_t trial);
  size_t rows_held() const { return rows_held_; }

  /// Optuna's numbers of trials that a tuner found to wait in vain, and why they do.
  const std::map<int64_t, std::string>& in_vain() const { return in_vain_; }
  const StudyFacts& facts() const { return facts_; }
  std::vector<TrialHistory> take() && { return std::move(trials_); }

 private:
  void take_in(const Event& event, const TrialAdded& added);
  void take_in(const Event& event, const AttemptStarted& started);
  void take_in(const Event& event, const Reported& reported);
  void take_in(const Event& event, const AttemptEnded& ended);
  void take_in(const Event&, const TunerNote& note);
  void take_in(const Event&, const OutsideTrial&) {}
  void take_in(const Event& event, const CheckpointSaved& saved);
  void take_in(const Event&, const StopOrdered&) {}
  void take_in(const Event& event, const PauseOrdered& order);
  void take_in(const Event& event, const ContinueOrdered& order);
  void change(const Event& event, TrialHistory& trial, const AttemptStarted& started);
  TrialHistory& trial_of(const Event& event);

  StudyFacts facts_;
  std::vector<TrialHistory> trials_;
  std::vector<double> attempt_started_s_;
  std::vector<int64_t> last_t_;
  std::map<int64_t, std::string> in_vain_;
  size_t rows_held_ = 0;
};

/// The trials of a whole log by number. Throws as HistoryBuilder.
std::vector<TrialHistory> histories(std::span<const Event> events, const StudyFacts& facts);

/// Optuna's own trials in the same form.
std::vector<TrialHistory> histories(std::span<const ForeignTrial> trials, const StudyFacts& facts);

/// All of a study: the log's, then Optuna's own, of which the log says which wait in vain. Throws as
/// HistoryBuilder.
std::vector<TrialHistory> histories(std::span<const Event> events,
                                    std::span<const ForeignTrial> foreign,
                                    const StudyFacts& facts);

/// What the trial's program was given in that attempt.
const Values& values_in(const TrialHistory& trial, int32_t attempt);

/// A tuner of the study would run it: it is neither over nor another program's.
bool goes_on(const TrialHistory& trial);

/// The metric that counts for the trial: the last or the best, by the study's scope.
double result_of(const TrialHistory& trial, const StudyFacts& facts);

/// The best finished trial, or the best so far; null if no trial has a metric (NaN is none, an infinite
/// one counts as Optuna counts it) and satisfies the constraints, and with several objectives. As StudyCore::best.
const TrialHistory* best_of(std::span<const TrialHistory> trials, const StudyFacts& facts);

/// With several objectives: the trials that are complete and on the front (Note [Several objectives]),
/// in the order of `trials`; with one, best_of.
std::vector<const TrialHistory*> front_of(std::span<const TrialHistory> trials,
                                          const StudyFacts& facts);

/// The same with several objectives, for trials that do not lie together: their places in `trials`.
std::vector<size_t> places_on_front(std::span<const TrialHistory* const> trials,
                                    const StudyFacts& facts);

/// "accuracy" and "max"; of several objectives "accuracy, step_s" and "max, min".
std::string metrics_text(const std::string& metric, const Goals& goals);
std::string modes_text(Mode mode, const Goals& goals);

/// All objectives, also of a study that has one.
std::vector<Objective> objectives_of(const StudyFacts& facts);

/// A result for each of them.
std::vector<double> results_of(const TrialHistory& trial, const StudyFacts& facts);

/// The place of the objective with that metric; 0 for an empty text. Throws a usage error for another.
size_t objective_named(std::string_view metric, const Goals& goals, const std::string& study);

/// All metrics that were reported, each once; the study's first, then as they came.
std::vector<std::string> metric_names(std::span<const TrialHistory> trials,
                                      const StudyFacts& facts);

/// The parameters as a trial's program reads them, nested by the dots of their names; those that do
/// not apply are left out.
Json config_of(const Values& values, const StudyFacts& facts);
Json config_of(const TrialHistory& trial, const StudyFacts& facts);

}  // namespace muster::tune
