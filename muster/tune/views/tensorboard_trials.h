// All trials of a study for TensorBoard: curves, and the HPARAMS tab.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "muster/track/tensorboard/tensorboard.h"
#include "muster/tune/views/history.h"

namespace muster::tune {

// Note [Trials in TensorBoard]
// The experiment (all parameters with their domains, all metrics) is written once, in the folder
// itself; each trial is a run below it, "trial-00007", with its values, its curves by step, and how
// it ended: FAILURE for a failed trial. So no parameter is missing because the first trial had none
// of it, numbers are numbers, and a parameter that does not apply is left out.

/// Everything at once. Events that an earlier export left in the folder are superseded. Throws an
/// environment error.
void write_tensorboard(const std::filesystem::path& folder,
                       std::span<const TrialHistory> trials,
                       const StudyFacts& facts);

/// The same while the study runs. One thread.
class TensorBoardTrials {
 public:
  TensorBoardTrials(std::filesystem::path folder, StudyFacts facts);

  /// Events in their order, from the study's first. `past`: of a resumed study, maybe in several
  /// calls, go_on() behind the last; a trial that is over and whole in the folder stays as it is,
  /// all others are made anew there: those that run, those of which a kill left a part, those from
  /// before anybody asked for these files. Throws an environment error, as go_on() does.
  void on_events(std::span<const Event> events, bool past = false);
  void go_on();

  /// Reports in memory: none but of past events.
  size_t rows_held() const { return builder_.rows_held(); }

 private:
  void on_new_event(const Event& event);
  void on_past_event(const Event& event);
  void write_whole(const TrialHistory& trial);
  void write_experiment(const TrialHistory::Row& row);
  track::TensorBoardWriter& writer_of(const TrialHistory& trial);

  std::filesystem::path folder_;
  HistoryBuilder builder_;
  std::vector<std::string> metrics_;                     // described so far
  std::map<int64_t, track::TensorBoardWriter> writers_;  // of trials that run
  std::set<int64_t> begun_;                              // trials that have a run by now
};

}  // namespace muster::tune
