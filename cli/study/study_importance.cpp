// `muster study importance`.
#include <cstdio>
#include <ostream>
#include <span>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/program/line/parse.h"
#include "muster/tune/storage/parameter_table.h"
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

Json importance_json(std::span<const tune::Importance> shares, size_t trials, size_t best) {
  Json json = {{"evaluator", "ped_anova"}, {"trials", trials}, {"best_trials", best}};
  json["importance"] = Json::array();
  for (const tune::Importance& importance : shares)
    json["importance"].push_back(
        {{"parameter", importance.parameter}, {"share", importance.share}});
  return json;
}

}  // namespace

int study_importance(std::span<const std::string> args, program::Console& console) {
  StudyFlags flags;
  const auto app = study_app(
      "importance",
      "Which parameters decided whether a trial was among the best tenth: shares that sum "
      "to 1.\nOf completed trials; the numbers are those of Optuna's PED-ANOVA.",
      "Examples:\n  muster study importance fashion.db\n"
      "  muster study importance fashion.db --json | jq '.importance[0].parameter'\n",
      flags);
  std::string of;
  program::add_value(*app, "--of", of, "for this one of several objectives")->type_name("METRIC");
  if (const auto done = program::parse(*app, args, console)) return *done;
  auto summary = tune::find_study(flags.storage, flags.study);
  std::optional<size_t> objective;
  if (!of.empty()) {
    objective = objective_named(of, summary.goals, summary.name);
    summary.metric = summary.goals.objectives[*objective].metric;
    summary.mode = summary.goals.objectives[*objective].mode;
  }
  const auto table = tune::read_parameter_table(flags.storage, summary.name, objective);
  const size_t best = tune::best_trials(table, summary.mode);
  if (table.values.size() < 2) {
    console.error(concat("study \"",
                         summary.name,
                         "\" has ",
                         trials_text(table.values.size()),
                         " that completed with a finite ",
                         summary.metric,
                         "; importance is told from two on"));
    return kFailed;
  }
  const auto shares = tune::parameter_importance(table, summary.mode);
  if (flags.json) {
    console.out() << json_text(importance_json(shares, table.values.size(), best)) << '\n';
    return kDone;
  }
  console.note(concat(summary.name,
                      ": the best ",
                      best,
                      " of ",
                      trials_text(table.values.size()),
                      " that completed",
                      best < kFewBest ? "; so few say little" : ""));
  console.out() << importance_table(shares);
  return kDone;
}

}  // namespace muster::cli
