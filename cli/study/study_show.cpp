// `muster study list`, `show` and `best`.
#include <algorithm>
#include <cmath>
#include <ostream>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/program/line/parse.h"
#include "muster/tune/views/export.h"
#include "muster/tune/views/front_volume.h"

#include "cli/command.h"
#include "cli/study/study_commands.h"

namespace muster::cli {
namespace {

using tune::StudyFacts;
using tune::TrialHistory;

constexpr int kDigits = 5;

/// A number short enough for a table.
std::string short_number(double value) {
  if (std::isnan(value)) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", kDigits, value);
  return text;
}

std::string short_text(const tune::Value& value) {
  return value.is_double() ? short_number(value.as_double()) : tune::value_text(value);
}

/// "*" for one on the front, "x" for one beyond the constraints.
std::string front_mark(const TrialHistory& trial, bool on_front) {
  const bool measured = is_over(trial.state) && trial.state != tune::TrialState::kFailed;
  if (on_front) return "*";
  return measured && !trial.goals.is_feasible() ? "x" : "";
}

std::vector<std::string> trial_row(const TrialHistory& trial,
                                   const StudyFacts& facts,
                                   bool on_front) {
  std::vector<std::string> row = {trial_label(trial), std::string(state_word(trial))};
  if (facts.goals.any()) row.push_back(front_mark(trial, facts.goals.several() && on_front));
  for (const double result : results_of(trial, facts)) {
    // What was reported and is no number is not what was never reported.
    const bool is_nan = std::isnan(result) && !trial.rows.empty();
    row.push_back(is_nan ? "nan" : short_number(result));
  }
  for (const tune::Value& value : trial.values) row.push_back(short_text(value));
  row.push_back(trial.rows.empty() ? "" : std::to_string(trial.rows.back().t));
  row.push_back(trial.run_s > 0 ? human_duration(trial.run_s) : "");
  row.push_back(tune::reason_text(trial));
  return row;
}

std::string trials_table(const StoredStudy& study, size_t line_width) {
  std::vector<std::vector<std::string>> rows(1);
  rows[0] = {"trial", "state"};
  if (study.facts.goals.any()) rows[0].emplace_back(study.facts.goals.several() ? "front" : "ok");
  for (const tune::Objective& objective : objectives_of(study.facts))
    rows[0].push_back(objective.metric);
  for (const auto& parameter : study.facts.parameters) rows[0].push_back(parameter.name);
  for (const char* name : {"step", "time", "reason"}) rows[0].push_back(name);
  const auto front = front_of(study.trials, study.facts);
  for (const TrialHistory& trial : study.trials) {
    const bool on_front = std::ranges::find(front, &trial) != front.end();
    rows.push_back(trial_row(trial, study.facts, on_front));
  }
  return text_table(rows, 40, line_width);
}

/// The reports of one trial.
std::string reports_table(const TrialHistory& trial, const StudyFacts& facts) {
  const auto names = metric_names(std::span(&trial, 1), facts);
  std::vector<std::vector<std::string>> rows = {{"step", "attempt", "time"}};
  rows[0].insert(rows[0].end(), names.begin(), names.end());
  for (const TrialHistory::Row& report : trial.rows) {
    auto& row = rows.emplace_back(std::vector<std::string>{
        std::to_string(report.t), std::to_string(report.attempt), human_duration(report.run_s)});
    for (const std::string& name : names) {
      const double* value = tune::find_metric(report.metrics, name);
      row.push_back(value != nullptr ? shortest(*value) : "");
    }
  }
  return text_table(rows);
}

/// "as trial 5; lr 0.5 -> 0.012", with `after` for what the trial had from then on.
std::string change_text(const TrialHistory::Change& change,
                        const tune::Values& after,
                        const StudyFacts& facts) {
  std::vector<std::string> parts;
  if (change.donor >= 0) parts.push_back(concat("as trial ", change.donor));
  for (size_t i = 0; i < facts.parameters.size(); ++i) {
    if (change.before[i] == after[i]) continue;
    parts.push_back(concat(
        facts.parameters[i].name, ' ', short_text(change.before[i]), " -> ", short_text(after[i])));
  }
  return join(parts, ", ");
}

/// Whose weights and parameters it had, attempt by attempt: population based training.
std::string lineage_text(const TrialHistory& trial, const StudyFacts& facts) {
  std::string text;
  for (size_t i = 0; i < trial.changes.size(); ++i) {
    const auto& change = trial.changes[i];
    const bool is_newest = i + 1 == trial.changes.size();
    const tune::Values& after = is_newest ? trial.values : trial.changes[i + 1].before;
    text += concat("  attempt ",
                   change.attempt,
                   ", behind step ",
                   change.t,
                   ": ",
                   change_text(change, after, facts),
                   '\n');
  }
  return text;
}

std::string trial_text(const TrialHistory& trial, const StudyFacts& facts) {
  std::string text = concat("trial ",
                            trial_label(trial),
                            "  ",
                            state_word(trial),
                            "  ",
                            results_text(results_of(trial, facts), objectives_of(facts)),
                            '\n');
  if (!trial.goals.is_feasible() && is_over(trial.state) &&
      trial.state != tune::TrialState::kFailed)
    text += concat("  beyond the constraints by ", shortest(trial.goals.violation()), '\n');
  for (size_t i = 0; i < facts.parameters.size(); ++i) {
    if (!trial.values[i].is_none())
      text +=
          concat("  ", facts.parameters[i].name, " = ", tune::value_text(trial.values[i]), '\n');
  }
  if (!trial.reason.empty()) text += concat("  ", trial.reason, '\n');
  return text + lineage_text(trial, facts);
}

const TrialHistory& trial_named(const StoredStudy& study, const std::string& name) {
  bool has_foreign = false;
  for (const TrialHistory& trial : study.trials) {
    if (trial_label(trial) == name || std::to_string(trial_id(trial)) == name) return trial;
    has_foreign |= trial.foreign;
  }
  throw usage_error({.refused = concat("study \"", study.facts.name, "\" has no trial ", name),
                     .rule = concat("it has ", trials_text(study.trials.size())),
                     .hint = has_foreign ? "those that Optuna added are o0, o1, …" : ""});
}

tune::FrontVolume volume_of(const StoredStudy& study) {
  std::vector<std::vector<double>> results;
  for (const TrialHistory& trial : study.trials) {
    if (trial.state == tune::TrialState::kComplete && trial.goals.is_feasible())
      results.push_back(trial.goals.results);
  }
  return tune::front_volume(results, study.facts.goals.objectives);
}

/// Of so many on the front: "5 on the Pareto front, hypervolume 0.41 from accuracy 0.2, step_s 3.1".
std::string front_words(const StoredStudy& study, size_t front) {
  if (front == 0) return "none on the Pareto front";
  const tune::FrontVolume volume = volume_of(study);
  return concat(front,
                " on the Pareto front, hypervolume ",
                short_number(volume.volume),
                " from ",
                volume.from);
}

/// The front as a table, or as {"best_trials": […], "hypervolume": …}.
std::string front_output(const StoredStudy& study,
                         std::span<const TrialHistory* const> front,
                         bool as_json,
                         size_t line_width) {
  if (as_json) {
    Json json = {{"best_trials", Json::array()}};
    for (const TrialHistory* trial : front)
      json["best_trials"].push_back(to_json(*trial, study.facts, false));
    add_json(volume_of(study), study.facts.goals.objectives, json);
    return json_text(json) + '\n';
  }
  std::vector<std::vector<std::string>> rows = {{"trial"}};
  for (const tune::Objective& objective : study.facts.goals.objectives)
    rows[0].push_back(objective.metric);
  for (const auto& parameter : study.facts.parameters) rows[0].push_back(parameter.name);
  for (const TrialHistory* trial : front) {
    auto& row = rows.emplace_back(std::vector<std::string>{trial_label(*trial)});
    for (const double result : trial->goals.results) row.push_back(shortest(result));
    for (const tune::Value& value : trial->values) row.push_back(tune::value_text(value));
  }
  return text_table(rows, 40, line_width);
}

/// "40 trials: 12 COMPLETE, 27 PRUNED, 1 RUNNING; best: trial 7, loss 0.31".
std::string headline(const StoredStudy& study) {
  std::map<std::string, int64_t> counts;
  for (const TrialHistory& trial : study.trials) ++counts[std::string(state_word(trial))];
  std::vector<std::string> parts;
  for (const auto& [state, count] : counts) parts.push_back(concat(count, ' ', state));
  std::string text = concat(study.facts.name, ": ", trials_text(study.trials.size()));
  if (!parts.empty()) text += ": " + join(parts, ", ");
  if (study.facts.goals.several()) {
    text += "; " + front_words(study, front_of(study.trials, study.facts).size());
  } else if (const TrialHistory* best = best_of(study.trials, study.facts)) {
    text += concat("; best: trial ",
                   trial_label(*best),
                   ", ",
                   study.facts.metric,
                   ' ',
                   shortest(result_of(*best, study.facts)));
  }
  if (study.tuner) text += concat("; run by process ", *study.tuner);
  // One that Optuna made no tuner resumes.
  const bool is_ours = !study.summary.description.is_null();
  if (!study.tuner && is_ours && std::ranges::any_of(study.trials, &tune::goes_on))
    text += "; no tuner runs it: what is not over goes on when the study is resumed";
  return text;
}

}  // namespace

int study_list(std::span<const std::string> args, program::Console& console) {
  StudyFlags flags;
  const auto app = study_app(
      "list", "The studies of a file.", "Examples:\n  muster study list fashion.db\n", flags);
  bool names = false;
  app->add_flag("--names", names, "names alone, one a line");
  if (const auto done = program::parse(*app, args, console)) return *done;
  std::vector<std::vector<std::string>> rows = {{"study", "metric", "mode", "trials", "made by"}};
  Json json = Json::array();
  for (const tune::StudySummary& study : tune::studies_of(flags.storage)) {
    if (!flags.study.empty() && study.name != flags.study) continue;
    if (names) console.out() << study.name << '\n';
    const char* maker = study.description.is_null() ? "optuna" : "muster";
    rows.push_back({study.name,
                    metrics_text(study.metric, study.goals),
                    modes_text(study.mode, study.goals),
                    std::to_string(study.trials),
                    maker});
    json.push_back({{"name", study.name},
                    {"metric", metrics_text(study.metric, study.goals)},
                    {"mode", modes_text(study.mode, study.goals)},
                    {"trials", study.trials},
                    {"made_by", maker}});
  }
  if (!names) console.out() << (flags.json ? json_text(json) + '\n' : text_table(rows, 80));
  return kDone;
}

int study_show(std::span<const std::string> args, program::Console& console) {
  StudyFlags flags;
  const auto app = study_app("show",
                             "A study's trials as a table, or the reports of one trial.",
                             "Examples:\n  muster study show fashion.db\n"
                             "  muster study show fashion.db --trial 7\n"
                             "  muster study show fashion.db --json | jq '.trials[].params'\n",
                             flags);
  std::string name;
  program::add_value(*app, "--trial", name, "only this one, with its reports; o7 is Optuna's own 7")
      ->type_name("N");
  if (const auto done = program::parse(*app, args, console)) return *done;
  const StoredStudy study = read_study(flags);
  if (!name.empty()) {
    const TrialHistory& trial = trial_named(study, name);
    console.out() << (flags.json
                          ? json_text(to_json(trial, study.facts, true)) + '\n'
                          : trial_text(trial, study.facts) + reports_table(trial, study.facts));
    return kDone;
  }
  if (flags.json) {
    Json json = to_json(study.trials, study.facts);
    if (study.facts.goals.several()) add_json(volume_of(study), study.facts.goals.objectives, json);
    json["tuner"] = study.tuner ? Json(*study.tuner) : Json();
    console.out() << json_text(json) << '\n';
  } else {
    console.note(headline(study));
    console.out() << trials_table(study, line_width(console));
  }
  return kDone;
}

int study_best(std::span<const std::string> args, program::Console& console) {
  StudyFlags flags;
  const auto app =
      study_app("best",
                "The best trial and its parameters; of several objectives the trials on "
                "the Pareto front.",
                "Examples:\n  muster study best fashion.db\n"
                "  muster study best fashion.db --json | jq .params.lr\n",
                flags);
  if (const auto done = program::parse(*app, args, console)) return *done;
  const StoredStudy study = read_study(flags);
  const auto front = front_of(study.trials, study.facts);  // of one objective its best
  if (study.facts.goals.several() && !front.empty()) {
    console.note(concat(study.facts.name, ": ", front_words(study, front.size())));
    console.out() << front_output(study, front, flags.json, line_width(console));
    return kDone;
  }
  const TrialHistory* best = best_of(study.trials, study.facts);
  if (best == nullptr) {
    console.error(concat("study \"",
                         study.facts.name,
                         "\" has no trial with a number for ",
                         metrics_text(study.facts.metric, study.facts.goals),
                         study.facts.goals.constraints.empty() ? "" : " within its constraints",
                         " yet"));
    return kFailed;
  }
  console.out() << (flags.json ? json_text(to_json(*best, study.facts, false)) + '\n'
                               : trial_text(*best, study.facts));
  return kDone;
}

}  // namespace muster::cli
