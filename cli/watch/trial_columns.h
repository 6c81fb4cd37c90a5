// What a trial has to show, column by column: for the table, for sorting and for the filter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/watch/watched_study.h"

namespace muster::cli {

struct TrialColumn {
  enum Kind { kNumber, kState, kResult, kBest, kStep, kTime, kAttempts, kParameter, kReason } kind;
  std::string name;
  size_t place = 0;  ///< index of the parameter, of kParameter; of the objective, of kResult
};

/// trial, state, a metric for each objective, step, time, the parameters, attempts, best, reason.
std::vector<TrialColumn> trial_columns(const WatchedStudy& study);

/// The cell as it is shown; numbers have five digits.
std::string cell_text(const WatchedStudy& study,
                      size_t index,
                      const TrialColumn& column,
                      double now_s);

/// The same as a number, for sorting and comparing; nothing for a text or an empty cell.
std::optional<double> cell_number(const WatchedStudy& study,
                                  size_t index,
                                  const TrialColumn& column,
                                  double now_s);

/// Indices of trials of `study`, rearranged: by the column, empty cells last in either direction,
/// equal ones by their place in the study.
void sort_trials(const WatchedStudy& study,
                 const TrialColumn& column,
                 bool reversed,
                 double now_s,
                 std::vector<size_t>& indices);

// Note [Filters]
// Words separated by blanks, which must all hold, in any case:
//   running            somewhere in the trial's parameters or reason, or the beginning of its state
//   state:run          in that column, of the state the beginning
//   lr<0.01 loss>=0.5  the number in that column; also <=, >, and = of numbers and texts
// Columns are those of the table: trial, state, the metric, parameters, step, time, attempts, reason.

class TrialFilter {
 public:
  TrialFilter() = default;
  /// Throws a usage error for a column that is not there (nearest as hint), or a comparison with no
  /// number.
  TrialFilter(const WatchedStudy& study, std::string_view text);

  bool empty() const { return words_.empty(); }
  bool holds(const WatchedStudy& study, size_t index, double now_s) const;

 private:
  struct Word {
    enum Kind { kAnywhere, kWithin, kLess, kLessEqual, kGreater, kGreaterEqual, kEqual } kind;
    TrialColumn column = {};
    std::string text;  ///< lower case
    double number = 0;
    bool is_number = false;
  };
  static Word word_of(const std::vector<TrialColumn>& columns, const std::string& text);
  bool holds(const WatchedStudy& study, size_t index, const Word& word, double now_s) const;

  std::vector<TrialColumn> columns_;
  std::vector<Word> words_;
};

}  // namespace muster::cli
