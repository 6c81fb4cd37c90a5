// A study as it is watched: its log read piece by piece, in another process than the one that runs it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/tune/core/event.h"
#include "muster/tune/execute/user_order.h"
#include "muster/tune/storage/storage.h"
#include "muster/tune/views/history.h"

namespace muster::cli {

/// What is shown of a trial besides its history, whose reports are not kept.
struct WatchedTrial {
  std::vector<double> values;  ///< of the study's metric, report by report; NaN: none in it
  int64_t t = 0;               ///< of the newest report
  int64_t reports = 0;
  std::string checkpoint;  ///< the newest; empty: none
};

class WatchedStudy {
 public:
  /// `searcher` and `scheduler` are those of the description; empty for a study of Optuna's.
  /// `foreign` names the parameters of the latter.
  explicit WatchedStudy(const tune::StudySummary& summary,
                        std::span<const tune::ForeignTrial> foreign = {});

  /// What happened next.
  void add(std::span<const tune::Event> events);
  /// All that are not of the log.
  void set_foreign(std::span<const tune::ForeignTrial> trials);
  void set_tuner(std::optional<int> process, const tune::TunerFacts& facts);

  const tune::StudyFacts& facts() const { return builder_.facts(); }
  const std::string& searcher() const { return searcher_; }
  const std::string& scheduler() const { return scheduler_; }
  const std::optional<tune::Space>& space() const { return space_; }  ///< none: of Optuna's

  size_t size() const { return builder_.trials().size() + foreign_.size(); }
  /// Ours by number, then Optuna's.
  const tune::TrialHistory& history(size_t index) const;
  const WatchedTrial& trial(size_t index) const;
  /// Index of the best; nothing if there is none.
  std::optional<size_t> best() const;
  /// Indices of those on the front, with several objectives.
  std::vector<size_t> front() const;
  double result(size_t index, size_t objective = 0) const {
    return results_of(history(index), facts())[objective];
  }
  /// All attempts, the running one up to now.
  double run_s(size_t index, double now_s) const;

  std::optional<int> tuner() const { return tuner_; }  ///< the process that runs it now
  const tune::TunerFacts& tuner_facts() const { return tuner_facts_; }
  double elapsed_s(double now_s) const;     ///< over all tuners
  int64_t given() const { return given_; }  ///< trials that were added by hand
  const tune::Event& newest() const { return newest_; }

 private:
  void add(const tune::Event& event);

  tune::HistoryBuilder builder_;
  std::string searcher_, scheduler_;
  std::optional<tune::Space> space_;
  std::vector<WatchedTrial> trials_;
  std::vector<tune::TrialHistory> foreign_;
  std::vector<WatchedTrial> foreign_trials_;
  std::optional<int> tuner_;
  tune::TunerFacts tuner_facts_;
  int64_t given_ = 0;
  tune::Event newest_;
  double used_s_ = 0, session_start_s_ = 0, session_last_s_ = 0;
};

/// Keeps a WatchedStudy up to date with its file.
class StudyFollower {
 public:
  /// Throws as find_study and read_events.
  StudyFollower(std::filesystem::path storage, const std::string& name);

  WatchedStudy& study() { return study_; }
  const std::filesystem::path& storage() const { return storage_; }

  /// Takes in what is new; true if something is. A file that did not change is not opened.
  bool refresh();

 private:
  /// Sizes and times of the file and its write-ahead log.
  struct Stamp {
    int64_t bytes = -1, log_bytes = -1;
    std::filesystem::file_time_type time, log_time;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  Stamp stamp() const;
  bool refresh_tuner();

  std::filesystem::path storage_;
  WatchedStudy study_;
  Stamp seen_;
  bool settled_ = false;  // the file was read when it had this stamp already
  bool has_contact_ = false;
};

}  // namespace muster::cli
