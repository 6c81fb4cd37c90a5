// What a StudyCore holds. Private to study_core.cpp, study_reports.cpp, study_ends.cpp,
// study_by_user.cpp, study_replay.cpp, study_outline.cpp and study_calls.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "muster/base/json.h"
#include "muster/tune/core/heard_calls.h"
#include "muster/tune/core/kept_checkpoints.h"
#include "muster/tune/core/search_desk.h"
#include "muster/tune/core/stop_rules.h"
#include "muster/tune/core/study_core.h"
#include "muster/tune/core/trial_folders.h"
#include "muster/tune/core/variants.h"

namespace muster::tune {

/// What the core needs of a trial besides what it shows.
struct Attempt {
  double started_s = 0;
  int64_t sequence = 0;                             ///< of the newest report that was taken
  int64_t t = std::numeric_limits<int64_t>::min();  ///< of the newest report of this attempt
  int64_t base_t = 0;                               ///< of the checkpoint that it went on from
  int64_t counted = 0;     ///< reports without a step, on top of the checkpoint's t
  bool asked = false;      ///< see StudyCore::next
  double lease_end_s = 0;  ///< of one that was asked for
  std::string refused;     ///< why its newest report was refused; empty if it was not
};

/// What a trial could go on from.
struct SavedState {
  std::string checkpoint;
  int64_t t = 0;
};

struct TrialRecord {
  Attempt attempt;
  Decision decision;                        ///< of the newest report
  std::optional<Failure> fails;             ///< that report ended it as a failure
  bool by_user = false;                     ///< a user made that decision
  std::optional<std::string> pause;         ///< a user wants it paused, and why
  std::array<int32_t, kFailures> failed{};  ///< attempts by Failure
  std::optional<double> rank;               ///< in StudyCore::Impl::so_far, where less is better
  std::deque<SavedState> older;  ///< checkpoints before the newest one, oldest first: a few
};

struct StudyCore::Impl {
  Impl(const StudySpec& given, bool suggests);

  // What next() does, in this order.
  void end_leases(double now_s);
  bool start_retry(double now_s, bool asked, Next& next);
  bool obey_orders(double now_s, bool asked, Next& next);
  bool start_new(double now_s, bool asked, bool elsewhere, Next& next);
  bool say_last(double now_s);
  Next nothing_to_start(double now_s, bool asked, bool elsewhere);
  bool give_up_paused(double now_s);

  // Each changes the state as its event says; live calls and replay go through the same.
  void add_trial(TrialAdded added, double now_s);
  void start_attempt(Trial& trial, AttemptStarted started, double now_s);
  void take_over(Trial& trial, int64_t donor);
  void come_to(Trial& trial, SavedState saved);
  void go_back(Trial& trial, AttemptStarted& started);
  AttemptStarted attempt_of(const Scheduler::Promotion& order, bool asked) const;
  Point point_of(const Scheduler::Promotion& order) const;
  void no_more_trials(TunerNote note, double now_s);
  Decision take_report(Trial& trial, TrialRecord& record, const Report& report, double now_s);
  Decision decide(Trial& trial, TrialRecord& record, const Report& report, int64_t t, double now_s);
  void stop_trial(Trial& trial, const std::string& reason, double now_s);
  void mark_stopped(Trial& trial, const std::string& reason);
  void pause_trial(Trial& trial, const std::string& reason, double now_s);
  void continue_trial(Trial& trial, const std::string& reason, double now_s);
  bool is_about_to_pause(int64_t number) const;
  void pause(Trial& trial, bool by_user);
  bool learn(const OutsideTrial& trial, double now_s);
  void end_attempt(Trial& trial, AttemptEnded ended, double now_s);
  void save_checkpoint(Trial& trial, CheckpointSaved saved, double now_s);

  bool may_have_outlines() const;
  bool hears() const;
  Json call_rules(const Json& description) const;

  std::optional<SearchDesk::Answer> suggest_next(bool elsewhere, Next& next);
  std::unique_ptr<Searcher> searcher_in(const Space& space) const;
  bool may_suggest() const;
  int64_t time_of(const Trial& trial, const Report& report) const;
  void check_metrics(const Trial& trial, const Report& report) const;
  void check_objectives(const Trial& trial, const std::vector<std::string>& reported) const;
  void check_watched(const Trial& trial, const std::vector<std::string>& reported) const;
  std::optional<Decision> not_finite(const Metrics& metrics, int64_t t) const;
  void check_stop_metrics(const Trial& trial, const std::vector<std::string>& reported) const;
  AttemptEnded outcome(Trial& trial, Failure failure, const std::string& message);
  void finish_attempt(Trial& trial, Failure failure, const std::string& message, double now_s);
  void fail(Trial& trial, AttemptEnded& ended);
  void count_failure(const Trial& trial);
  void take_note(const TunerNote& note);
  bool is_stopped() const { return !stopped.empty() || !given_up.empty(); }
  TrialAdded take_given();
  void renew_lease(const Trial& trial, double now_s);
  void note_time(const Event& event);
  void note_best(const Trial& trial);
  void note_so_far(const Trial& trial);
  void note_front(const Trial& trial);
  std::string missing_results(const Trial& trial) const;
  double result_of(const Trial& trial) const;
  bool is_better(double metric, double than) const;
  Trial& running(int64_t number);
  Event& emit(int64_t trial, double now_s, decltype(Event::what) what);

  StudySpec spec;
  bool has_functions = false;  // in the space: values do not follow from points
  Variants variants;
  StopRules rules;
  KeptCheckpoints checkpoints;
  TrialFolders folders;
  CheckpointIsThere is_there;  // of next(), while it runs
  int64_t next_event = 1;
  HeardCalls heard{next_event};
  bool searcher_learns = false;  // the study's own, also where nobody asks it here
  SearchDesk searcher;
  Objective watched;         // by the scheduler
  bool goes_by_one = false;  // it needs that one in the reports
  std::unique_ptr<Scheduler> scheduler;
  std::vector<Trial> trials;
  std::unordered_map<int64_t, TrialRecord> records;  // of trials that are not over
  std::set<std::pair<double, int64_t>> retries;      // due, number
  std::vector<Event> events;
  std::set<int64_t> outside;  // trials of other programs that the searcher was told of
  int64_t running_count = 0, paused_count = 0, held_count = 0;  // paused: by the scheduler
  int64_t best = -1;  // of those that are over; none has a result before there is one
  std::set<std::pair<double, int64_t>> so_far;  // until then, of the others: rank, number
  std::vector<int64_t> front;                   // of several objectives, rising
  bool exhausted = false;                       // the searcher has no more points
  bool waiting = false;                         // it has none before more is told
  bool last_said = false;                       // to the scheduler, that no trial is to come
  std::string stopped;         // why no more trials start: what this process was told
  std::string given_up;        // the same, because trials fail: what the log says
  bool any_results = false;    // a trial has ended with all that the goals name
  int64_t failed = 0;          // trials, since the newest session began
  std::set<int64_t> unlogged;  // trials whose attempt is not where the log has it
  std::set<int64_t> in_vain;   // Optuna's trials that wait and cannot be run
  int64_t outlined = 0;        // so many trials came of an outline, with nothing known of them
  std::set<int64_t> told;      // but for these

  std::deque<GivenPoint> offered;
  std::set<int64_t> adopted;                    // of the given trials
  int64_t given_count = 0;                      // trials that were not the searcher's
  std::set<std::pair<double, int64_t>> leases;  // end, number: of attempts that were asked for
  int64_t reports = 0;                          // of all trials
  double used_s = 0;                            // by sessions that are over
  double session_start_s = 0, session_last_s = 0;
  std::optional<double> born_s;  // when the first event happened
};

}  // namespace muster::tune
