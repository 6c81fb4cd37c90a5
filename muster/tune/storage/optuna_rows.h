// What an event is in Optuna's tables. Only for storage.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "muster/tune/core/event.h"
#include "muster/tune/core/study_spec.h"
#include "muster/tune/space/space.h"
#include "muster/tune/storage/sqlite.h"
#include "muster/tune/storage/study_tables.h"

namespace muster::tune {

// Note [Optuna's view of a trial]
// - A trial is RUNNING from its start to its end, also while it is paused or waits for another
//   attempt: Optuna has no word for that, and would run a WAITING trial itself.
// - Its number there is the next in Optuna's count, which is ours unless Optuna added trials too;
//   muster_trials has both. One that waited there (enqueue_trial) is taken over as it is.
// - Parameters: one per dimension, named as the parameter. An expression with few possible values
//   is one categorical, else its draws are parameters ("l1#0") and its value is an attribute. What
//   has no dimension (constants, C++ functions) is a user attribute.
// - Reports: the study's metric at t, a moment later in a busy study (Note [Busy studies]). All
//   metrics are in the log, and in the view muster_metrics.
// - A trial that goes on with other values (AttemptStarted::point) has these as its parameters from
//   then on; what it had before is in the log.
// - COMPLETE has a value, or Optuna's samplers fail: a trial that ends well without a number (no
//   metric, NaN) is FAIL there, as Optuna itself has it.
// - Several objectives: a value for each, once all are numbers, and no intermediate values, which
//   Optuna has not for such a study and some of its samplers stumble over. What a trial that is not
//   over has reported is looked up in the log then.
// - Constraints: the system attribute "constraints", a number for each, above 0 where violated.
// - The user attribute muster_reason says why it ended.

class OptunaRows {
 public:
  struct Target {
    int64_t study_id = 0;
    std::string metric;
    Mode mode = Mode::kMax;
    StudySpec::Scope scope = StudySpec::Scope::kLast;
    Goals goals = {};
  };

  /// Goes on with the trials that are not over, `opened` of the caller's transaction.
  OptunaRows(Database& database, Target target, const Space& space, const OpenedTrials& opened);

  /// The trial was added and is not over.
  bool is_open(int64_t trial) const { return rows_.contains(trial); }

  /// Writes the event; within the caller's transaction.
  void write(const Event& event);

  /// Takes note of an event of another process, which wrote it itself.
  void learn(const Event& event);

  /// The transaction was committed, or rolled back: what write() has learnt since is kept or
  /// forgotten.
  void keep() { undo_.clear(); }
  void undo();

 private:
  /// A trial that is not over.
  struct Row {
    int64_t trial_id = 0;
    double last, best;  // of the study's metric; NaN: none yet
    double started_s = 0;
    GoalValues values = {};
  };
  /// How a dimension, or an expression as a whole, is a parameter of Optuna's.
  struct Column {
    std::string name, distribution;
    size_t dimension = 0, parameter = 0;
    std::vector<Value> image;  // of an expression: the number is the value's place in it
  };
  struct Attribute {
    std::string name;
    size_t parameter = 0;
    std::optional<std::string> constant;  // as JSON
  };

  void learn_space(const Space& space);
  void learn_trials(const OpenedTrials& opened);
  void learn_goals();
  Row& row_of(int64_t trial);
  void remember(int64_t trial);

  void add(const Event& event, const TrialAdded& added);
  int64_t add_trial_row(const std::string& start);
  int64_t adopt_trial_row(int64_t optuna_number, const std::string& start);
  void add_params(int64_t trial_id, const Point& point, const Values& values);
  void start(const Event& event, const AttemptStarted& started);
  void report(const Event& event, const Reported& reported);
  std::vector<double> results_of(const Row& row) const;
  void add_constraints(const Row& row);
  void end(const Event& event, const AttemptEnded& ended);
  Row new_row(int64_t trial_id, double started_s) const;
  int64_t next_number();
  void set_attribute(int64_t trial_id, std::string_view key, std::string_view json);

  Target target_;
  std::vector<Column> columns_;
  std::vector<Attribute> attributes_;
  std::unordered_map<int64_t, Row> rows_;                     // by our number
  std::vector<std::pair<int64_t, std::optional<Row>>> undo_;  // as they were, oldest first
  Database& database_;
  Statement last_number_, add_trial_, adopt_trial_, trial_id_of_, add_own_, add_param_,
      drop_params_, add_attribute_, add_system_attribute_, set_start_, add_point_, add_value_,
      end_trial_;
};

}  // namespace muster::tune
