#include "cli/watch/watch_head.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "muster/base/text.h"
#include "muster/base/text_table.h"

namespace muster::cli {
namespace {

constexpr size_t kHeadGap = 2;

std::string right_of_title(const WatchedStudy& study, double now_s) {
  const std::string ran = human_duration(study.elapsed_s(now_s));
  if (!study.tuner()) return concat("no tuner runs it; it ran ", ran);
  const double budget_s = study.tuner_facts().time_budget_s;
  return concat("running ",
                ran,
                budget_s > 0 ? concat(" of ", human_duration(budget_s)) : "",
                ", process ",
                *study.tuner());
}

std::string counts(const WatchedStudy& study) {
  std::map<std::string_view, int64_t> by_state;
  int64_t running = 0;
  for (size_t i = 0; i < study.size(); ++i) {
    ++by_state[state_word(study.history(i))];
    running += study.history(i).state == tune::TrialState::kRunning;
  }
  std::vector<std::string> parts;
  for (const char* word : {"RUNNING", "PAUSED", "WAITING", "COMPLETE", "PRUNED", "FAIL", "IN_VAIN"})
    if (by_state.contains(word)) parts.push_back(concat(by_state[word], ' ', word));
  const tune::TunerFacts& facts = study.tuner_facts();
  std::string text = concat(study.size());
  if (facts.planned >= 0) text += concat('/', facts.planned + study.given());
  text += study.size() == 1 ? " trial" : " trials";
  if (!parts.empty()) text += ": " + join(parts, ", ");
  if (study.tuner() && facts.max_concurrent > 0)
    text += concat("; slots ", running, '/', facts.max_concurrent);
  return text;
}

std::string of_metric(const std::string& metric, double result) {
  return concat(metric, ' ', shortest(result));
}

/// "front: 5 trials; accuracy 0.91 by trial 7, step_s 3.1 by trial 3": its ends, where there is room.
std::string front_text(const WatchedStudy& study) {
  const std::vector<size_t> front = study.front();
  if (front.empty()) return "front: none yet";
  std::vector<std::string> ends;
  const auto& objectives = study.facts().goals.objectives;
  for (size_t i = 0; i < objectives.size(); ++i) {
    const auto score = [&](size_t trial) {
      return tune::score_of(study.history(trial).goals.results[i], objectives[i].mode);
    };
    const size_t end = *std::ranges::max_element(front, {}, score);
    ends.push_back(concat(of_metric(objectives[i].metric, study.history(end).goals.results[i]),
                          " by trial ",
                          trial_label(study.history(end))));
  }
  return concat(
      "front: ", front.size(), front.size() == 1 ? " trial; " : " trials; ", join(ends, ", "));
}

std::string best_text(const WatchedStudy& study, double now_s) {
  if (study.facts().goals.several()) return front_text(study);
  const auto best = study.best();
  if (!best) return "best: none yet";
  std::string text = concat("best: trial ",
                            trial_label(study.history(*best)),
                            ", ",
                            of_metric(study.facts().metric, study.result(*best)));
  for (const TrialColumn& column : trial_columns(study)) {
    if (column.kind != TrialColumn::kParameter) continue;
    const std::string cell = cell_text(study, *best, column, now_s);
    if (!cell.empty()) text += concat("  ", column.name, '=', cell);
  }
  return text;
}

/// "min loss", "max accuracy, min step_s".
std::string goal_text(const WatchedStudy& study) {
  std::vector<std::string> words;
  for (const tune::Objective& objective : objectives_of(study.facts()))
    words.push_back(objective_text(objective));
  return join(words, ", ");
}

}  // namespace

void draw_watch_head(const WatchModel& model, double now_s, Canvas& canvas) {
  const WatchedStudy& study = model.study();
  const std::string right = right_of_title(study, now_s);
  const size_t right_columns = std::min(columns_of(right), canvas.columns() / 2);
  const size_t left = canvas.columns() - right_columns - kHeadGap;
  size_t used = canvas.put(0, 0, study.facts().name, Look::kTitle, left);
  std::string more = concat("  ", goal_text(study));
  if (!study.searcher().empty()) more += concat("  ", study.searcher(), " / ", study.scheduler());
  if (used < left) canvas.put(0, used, more, Look::kPlain, left - used);
  canvas.put(0,
             canvas.columns() - right_columns,
             right,
             study.tuner() ? Look::kRunning : Look::kWarning,
             right_columns);
  canvas.put(1, 0, counts(study));
  canvas.put(2, 0, best_text(study, now_s), Look::kGood);
  std::string order = concat("by ", model.sort_column().name, model.is_reversed() ? " ▼" : " ▲");
  if (!model.filter_text().empty())
    order +=
        concat("   /", model.filter_text(), "  (", model.rows().size(), " of ", study.size(), ')');
  canvas.put(3, 0, order, Look::kDim);
}

}  // namespace muster::cli
