// `muster study importance`.
#include <algorithm>
#include <cstdio>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/program/line/parse.h"
#include "muster/tune/storage/parameter_table.h"
#include "muster/tune/views/fanova.h"
#include "muster/tune/views/importance.h"

#include "cli/command.h"
#include "cli/study/study_commands.h"

namespace muster::cli {
namespace {

constexpr size_t kFewBest = 5;  // fewer say little; so says Optuna's documentation

std::string importance_table(std::span<const tune::Importance> shares) {
  constexpr double kBarColumns = 40;
  std::vector<std::vector<std::string>> rows = {{"parameter", "importance", ""}};
  for (const tune::Importance& importance : shares) {
    char share[16];
    std::snprintf(share, sizeof share, "%.3f", importance.share);
    const auto columns = static_cast<size_t>(importance.share * kBarColumns + 0.5);
    std::string bar;
    for (size_t i = 0; i < columns; ++i) bar += "█";
    rows.push_back({importance.parameter, share, bar});
  }
  return text_table(rows, 60);
}

Json importance_json(std::span<const tune::Importance> shares, Json json) {
  json["importance"] = Json::array();
  for (const tune::Importance& importance : shares)
    json["importance"].push_back(
        {{"parameter", importance.parameter}, {"share", importance.share}});
  return json;
}

constexpr const char* kPedAnova = "ped-anova";
constexpr const char* kFanova = "fanova";

void check_evaluator(const std::string& name) {
  if (name == kPedAnova || name == kFanova) return;
  const std::vector<std::string> names = {kPedAnova, kFanova};
  throw usage_error({.refused = "--by",
                     .rule = join(names, " or "),
                     .value = name,
                     .hint = suggestion(name, names)});
}

void say_best(const std::string& study, size_t best, size_t trials, program::Console& console) {
  console.note(concat(study,
                      ": the best ",
                      best,
                      " of ",
                      trials_text(trials),
                      " that completed",
                      best < kFewBest ? "; so few say little" : ""));
}

/// The forest sees only what all trials had.
void say_forest(const std::string& study,
                const tune::ParameterTable& table,
                std::span<const tune::Importance> shares,
                program::Console& console) {
  std::vector<std::string> left_out;
  for (const auto& column : table.columns) {
    if (!std::ranges::any_of(shares, [&](const auto& s) { return s.parameter == column.name; }))
      left_out.push_back(column.name);
  }
  console.note(concat(study,
                      ": a forest of ",
                      tune::ForestOptions{}.trees,
                      " trees over ",
                      trials_text(table.values.size()),
                      " that completed",
                      left_out.empty() ? "" : "; without what not all trials had: ",
                      join(left_out, ", ")));
}

struct ImportanceFlags {
  std::string by = kPedAnova, of;
  uint64_t seed = 0;
};

int study_importance_by(const ImportanceFlags& asked,
                        const StudyFlags& flags,
                        program::Console& console) {
  auto summary = tune::find_study(flags.storage, flags.study);
  std::optional<size_t> objective;
  if (!asked.of.empty()) {
    objective = objective_named(asked.of, summary.goals, summary.name);
    summary.metric = summary.goals.objectives[*objective].metric;
    summary.mode = summary.goals.objectives[*objective].mode;
  }
  const auto table = tune::read_parameter_table(flags.storage, summary.name, objective);
  const size_t trials = table.values.size();
  if (trials < 2) {
    console.error(concat("study \"",
                         summary.name,
                         "\" has ",
                         trials_text(trials),
                         " that completed with a finite ",
                         summary.metric,
                         "; importance is told from two on"));
    return kFailed;
  }
  const bool forest = asked.by == kFanova;
  const size_t best = tune::best_trials(table, summary.mode);
  const auto shares = forest ? tune::fanova_importance(table, {.seed = asked.seed})
                             : tune::parameter_importance(table, summary.mode);
  if (flags.json) {
    Json facts = {{"evaluator", forest ? "fanova" : "ped_anova"}, {"trials", trials}};
    if (!forest) facts["best_trials"] = best;
    console.out() << json_text(importance_json(shares, std::move(facts))) << '\n';
    return kDone;
  }
  forest ? say_forest(summary.name, table, shares, console)
         : say_best(summary.name, best, trials, console);
  console.out() << importance_table(shares);
  return kDone;
}

}  // namespace

int study_importance(std::span<const std::string> args, program::Console& console) {
  StudyFlags flags;
  const auto app =
      study_app("importance",
                "Which parameters decided: shares that sum to 1, of completed trials. By "
                "PED-ANOVA, whether a "
                "trial was among the best tenth, with Optuna's numbers. By fANOVA, how much of all "
                "that trials "
                "reached each parameter by itself explains, in a random forest fitted to them.",
                "Examples:\n  muster study importance fashion.db\n"
                "  muster study importance fashion.db --by fanova\n"
                "  muster study importance fashion.db --json | jq '.importance[0].parameter'\n",
                flags);
  ImportanceFlags asked;
  program::add_value(*app, "--by", asked.by, "how it is told")
      ->type_name("ped-anova|fanova")
      ->capture_default_str();
  program::add_value(*app, "--seed", asked.seed, "of the forest of fanova")
      ->type_name("N")
      ->capture_default_str();
  program::add_value(*app, "--of", asked.of, "for this one of several objectives")
      ->type_name("METRIC");
  if (const auto done = program::parse(*app, args, console)) return *done;
  check_evaluator(asked.by);
  return study_importance_by(asked, flags, console);
}

}  // namespace muster::cli
