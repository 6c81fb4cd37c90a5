#include "muster/tune/plot/rung_counts.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "muster/base/error.h"
#include "muster/base/params.h"
#include "muster/base/text.h"
#include "muster/tune/schedule/scheduler.h"

namespace muster::tune {
namespace {

constexpr size_t kMostStops = 12;

int64_t last_step(const TrialHistory& trial) {
  int64_t last = -1;
  for (const TrialHistory::Row& row : trial.rows) last = std::max(last, row.t);
  return last;
}

/// A parameter of a scheduler as its text has it, or its default; nothing if it has no such one.
std::optional<double> scheduler_number(const Spec& spec, std::string_view name) {
  const SchedulerEntry* entry = schedulers().find(spec.name);
  if (entry == nullptr) return std::nullopt;
  for (const Param& param : entry->params) {
    if (param.name != name) continue;
    const auto given = spec.params.find(name);
    return to_double(given != spec.params.end() ? given->second : param.default_value());
  }
  return std::nullopt;
}

/// grace_period, times the reduction factor, … and max_t, up to `last`.
std::vector<int64_t> declared_rungs(const std::string& scheduler, int64_t last) {
  std::vector<int64_t> rungs;
  try {
    const Spec spec = parse_spec(scheduler);
    const auto lowest = scheduler_number(spec, "grace_period");
    const auto factor = scheduler_number(spec, "reduction_factor");
    const auto highest = scheduler_number(spec, "max_t");
    if (!lowest || !factor || !highest || *lowest < 1 || !(*factor > 1)) return {};
    const double end = std::min(*highest, static_cast<double>(last));
    for (double t = *lowest; t <= end && rungs.size() < 64; t *= *factor)
      rungs.push_back(t < static_cast<double>(last) ? static_cast<int64_t>(std::ceil(t)) : last);
    const bool came_to_end = *highest <= static_cast<double>(last);
    const int64_t top =
        *highest < static_cast<double>(last) ? static_cast<int64_t>(*highest) : last;
    if (came_to_end && (rungs.empty() || rungs.back() < top)) rungs.push_back(top);
  } catch (const Error&) {  // a scheduler of a newer Muster
    rungs.clear();
  }
  rungs.erase(std::unique(rungs.begin(), rungs.end()), rungs.end());
  return rungs;
}

/// Stopped and paused trials are at the highest rung that they have come to; others that have a
/// report beyond a rung went on from it.
void count_trial(const TrialHistory& trial, int64_t last, bool is_top, RungCount& rung) {
  ++rung.came;
  const bool held = trial.state == TrialState::kPruned || trial.state == TrialState::kPaused;
  if (!is_top || (last > rung.t && !held)) {
    ++rung.went_on;
  } else if (trial.state == TrialState::kComplete) {
    ++rung.complete;
  } else if (trial.state == TrialState::kPruned) {
    ++rung.stopped;
  } else if (trial.state == TrialState::kFailed) {
    ++rung.failed;
  } else {
    ++rung.open;
  }
}

}  // namespace

std::vector<int64_t> rungs_of(const PlotStudy& study) {
  int64_t last = -1;
  std::set<int64_t> stops;
  for (const TrialHistory& trial : study.trials) {
    const int64_t step = last_step(trial);
    last = std::max(last, step);
    if (step >= 1 && (trial.state == TrialState::kPruned || trial.state == TrialState::kPaused))
      stops.insert(step);
  }
  if (last < 0) return {};
  std::vector<int64_t> rungs = declared_rungs(study.scheduler, last);
  if (!rungs.empty()) return rungs;
  if (!stops.empty() && stops.size() <= kMostStops) {
    rungs.assign(stops.begin(), stops.end());
    if (last > rungs.back()) rungs.push_back(last);
    return rungs;
  }
  for (int64_t t = 1; t <= last; t *= 2) {
    rungs.push_back(t);
    if (t > last / 2) break;  // steps may be as large as they can
  }
  if (rungs.empty() || rungs.back() < last) rungs.push_back(last);
  return rungs;
}

std::vector<RungCount> rung_counts(const PlotStudy& study) {
  std::vector<RungCount> counts;
  for (const int64_t t : rungs_of(study)) counts.push_back({.t = t});
  for (const TrialHistory& trial : study.trials) {
    const int64_t last = last_step(trial);
    for (size_t i = 0; i < counts.size() && counts[i].t <= last; ++i) {
      const bool is_top = i + 1 == counts.size() || counts[i + 1].t > last;
      count_trial(trial, last, is_top, counts[i]);
    }
  }
  return counts;
}

}  // namespace muster::tune
