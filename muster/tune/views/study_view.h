// What the tables of a study are made of; apart from StudyCore, so that tests can make one up.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/tune/objective/objective.h"
#include "muster/tune/views/status_view.h"

namespace muster::tune {

struct StudyView {
  std::span<const Trial> trials;
  const Trial* best = nullptr;
  double best_result = 0;  ///< the best trial's metric that counts
  std::string name, metric;
  Mode mode = Mode::kMax;
  std::vector<std::string> parameters = {};  ///< names, as Trial::values
  std::string scheduler;                     ///< its status; may be empty
  double time_budget_s = 0;
  std::filesystem::path trial_folder;  ///< empty: trials have no files
  Goals goals = {};                    ///< several objectives, constraints
  std::vector<int64_t> front = {};     ///< StudyCore::front
};

StudyView view_of(const StudyCore& core);

/// "fashion_00003", as Ray names trials.
std::string trial_name(const StudyView& view, int64_t number);

/// Where stdout.log and stderr.log of the trial are.
std::string output_folder(const StudyView& view, int64_t number);

/// "lr=0.01 l1=64": what applies; in short, numbers have six digits, else all.
std::string parameters_text(const StudyView& view, const Trial& trial, bool in_short = false);

/// "accuracy=0.91 step_s=0.12", all objectives; in short, numbers have six digits, else all.
std::string results_text(const StudyView& view, const Trial& trial, bool in_short = false);

/// "Pareto front: 3 of 20 trials; hypervolume 0.41 from accuracy 0.2, step_s 3.1", the worst that
/// complete trials had; or that there is none, and why.
std::string front_text(const StudyView& view);

/// Six significant digits, as in the table.
std::string short_text(double value);

/// All attempts, the running one up to now.
double run_seconds(const Trial& trial, double now_s);

/// Seconds until all trials are over, from the mean time of those that are; negative: not known.
double seconds_left(const StudyView& view, const StatusFacts& facts);

/// As the functions of status_view.h.
std::string status_table(const StudyView& view,
                         const StatusFacts& facts,
                         const StatusOptions& options);
std::optional<std::string> event_line(const StudyView& view, const Event& event);
std::string summary(const StudyView& view, const StatusFacts& facts);

}  // namespace muster::tune
