// What `muster study watch` shows and does, without a terminal and without a tuner: keys come in,
// requests go out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/tune/trial/trial.h"

#include "cli/screen/full_screen.h"
#include "cli/screen/text_field.h"
#include "cli/watch/trial_columns.h"

namespace muster::cli {

/// What the user wants done.
struct WatchRequest {
  enum Kind { kQuit, kOrder, kAdd } kind = kQuit;
  int64_t trial = -1;                              ///< of kOrder
  tune::Action action = tune::Action::kContinue;   ///< of kOrder
  std::map<std::string, tune::Value> values = {};  ///< of kAdd
};

class WatchModel {
 public:
  enum Mode {
    kTable,
    kSort,    ///< chooses a column
    kFilter,  ///< types a filter
    kStop,    ///< is asked whether to stop the selected trial
    kAdd,     ///< types a trial's values
    kHelp,
  };

  /// `study` outlives the model.
  WatchModel(const WatchedStudy& study, double now_s);

  /// The study has changed, or time has passed: rows are chosen and sorted anew; the same trial stays
  /// selected.
  void refresh(double now_s);

  /// So many rows of the table are in sight: the selected one stays among them.
  void set_page(size_t rows);

  std::optional<WatchRequest> on_key(const Key& key, double now_s);

  /// For the last line, until the next key.
  void say(std::string text, bool is_bad = false);

  const WatchedStudy& study() const { return study_; }
  Mode mode() const { return mode_; }
  bool has_details() const { return details_; }
  const std::vector<size_t>& rows() const { return rows_; }  ///< indices of trials, in order
  size_t top() const { return top_; }                        ///< the first row in sight
  size_t selected_row() const { return selected_; }
  std::optional<size_t> selected() const;  ///< index of the trial
  const std::vector<TrialColumn>& columns() const { return columns_; }
  const TrialColumn& sort_column() const { return columns_[sort_]; }
  bool is_reversed() const { return reversed_; }
  /// Rows change while nothing but time happens.
  bool goes_by_time() const {
    return sort_column().kind == TrialColumn::kTime ||
           filter_text_.find("time") != std::string::npos;
  }
  size_t choice() const { return choice_; }                    ///< of kSort
  size_t first_parameter() const { return first_parameter_; }  ///< those before are scrolled away
  const TextField& field() const { return field_; }            ///< of kFilter and kAdd
  const std::string& filter_text() const { return filter_text_; }
  const std::string& message() const { return message_; }
  bool message_is_bad() const { return message_is_bad_; }

 private:
  using Request = std::optional<WatchRequest>;
  Request on_table_key(const Key& key, double now_s);
  Request on_table_letter(char letter, double now_s);
  bool move(const Key& key);
  void on_sort_key(const Key& key, double now_s);
  void on_filter_key(const Key& key, double now_s);
  Request on_stop_key(const Key& key);
  Request on_add_key(const Key& key);
  Request pause_or_continue();
  bool may_order();
  void begin_stop();
  void begin_add();
  void select(size_t row);

  const WatchedStudy& study_;
  Mode mode_ = kTable;
  bool details_ = false;
  std::vector<TrialColumn> columns_;
  size_t sort_ = 0, choice_ = 0;
  bool reversed_ = false;
  TrialFilter filter_;
  std::string filter_text_;
  TextField field_;
  std::vector<size_t> rows_;
  size_t selected_ = 0, top_ = 0, page_ = 1;
  int64_t selected_id_ = 0;  // trial_id of the selected one
  int64_t asked_ = -1;       // of kStop: the trial that was selected when it was asked
  size_t first_parameter_ = 0;
  std::string message_;
  bool message_is_bad_ = false;
};

}  // namespace muster::cli
