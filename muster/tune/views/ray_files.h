// What Ray Tune leaves of each trial: a folder with params.json, result.json, progress.csv. So
// that notebooks that read Ray's results read ours. Source: ray 2.60.0, tune/logger.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "muster/tune/views/history.h"

namespace muster::tune {

/// Who ran the trials, for the columns that Ray fills by itself; left out if not known.
struct RayHost {
  std::string hostname, node_ip;
  int64_t pid = 0;
};

/// "fashion_3e7a2_00007_7_batch_size=4,lr=0.0012_2026-11-21_17-12-10": study, five hexadecimal
/// digits of its name, number, number again with the parameters that vary, start in local time.
std::string ray_trial_folder(const TrialHistory& trial, const StudyFacts& facts);

/// One folder per trial that was started, below `folder`. Each file is written whole or not at all.
/// Throws an environment error.
void write_ray_files(const std::filesystem::path& folder,
                     std::span<const TrialHistory> trials,
                     const StudyFacts& facts,
                     const RayHost& host = {});

/// How far a trial's files are: for the next line of them.
struct RayProgress {
  std::vector<std::string> columns;  ///< of progress.csv
  size_t first = 0;                  ///< the report that the newest attempt began with
};

/// The same while the study runs: each report is a line as soon as on_events() returns. One thread.
class RayFiles {
 public:
  RayFiles(std::filesystem::path folder, StudyFacts facts, RayHost host = {});

  /// Events in their order, from the study's first: those of a resumed study too, whose files are
  /// made anew. Throws an environment error.
  void on_events(std::span<const Event> events);

  /// Reports in memory: those of trials that are not over.
  size_t rows_held() const { return builder_.rows_held(); }

 private:
  void add_row(const TrialHistory& trial);
  void write_whole(int64_t number);

  std::filesystem::path folder_;
  HistoryBuilder builder_;
  RayHost host_;
  std::vector<RayProgress> progress_;  // by trial
};

}  // namespace muster::tune
