// Stop criteria and plateaus: rules that end a trial whatever the scheduler says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "muster/tune/core/study_spec.h"

namespace muster::tune {

/// Reads "accuracy >= 0.95"; blanks are free, a comparison is <, <=, > or >=. Throws a usage error
/// that starts with `where`; "accuracy: 0.95" and "loss = 0.1" are refused with the two ways to
/// mean it (Ray's stop={"loss": 0.1} stops above 0.1).
StopCriterion parse_stop_criterion(std::string_view text, std::string_view where);
std::string criterion_text(const StopCriterion& criterion);

/// A deterministic function of its calls, like a scheduler. The scheduler is to see a report that
/// is stopped here, too: it counts at its rung.
class StopRules {
 public:
  /// Throws a usage error for a plateau with negative numbers.
  explicit StopRules(const StudySpec& spec);

  /// kStop with `complete` and the reason ("accuracy 0.953 >= 0.95", "no better than 0.41 in 5
  /// reports"), or nothing. Criteria on metrics that the report lacks do not hold.
  std::optional<Decision> on_report(int64_t trial,
                                    int64_t t,
                                    const Metrics& metrics,
                                    double time_total_s);
  void on_end(int64_t trial);

  /// What is remembered of a trial that is not over, for its plateau.
  struct Progress {
    double best = 0;     ///< a score
    int64_t waited = 0;  ///< reports since then
    bool any = false;    ///< `best` is there
  };
  /// Nothing: it has reported nothing, or there is no plateau.
  std::optional<Progress> progress(int64_t trial) const;
  /// As if the trial's reports had been heard.
  void go_on_from(int64_t trial, const Progress& progress);

  /// Metrics that criteria name: a trial's first report has them.
  std::vector<std::string> metrics() const;

 private:
  std::optional<Decision> plateau(int64_t trial, int64_t t, const Metrics& metrics);

  std::vector<StopCriterion> criteria_;
  Plateau plateau_;
  std::string metric_;
  Mode mode_ = Mode::kMax;
  std::unordered_map<int64_t, Progress> progress_;
};

}  // namespace muster::tune
