#include "muster/tune/core/study_spec.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/path_names.h"
#include "muster/base/text.h"
#include "muster/tune/core/study_paths.h"

namespace muster::tune {
namespace {

/// Checks of one study; `refused` is the key as well.
struct Requirement {
  const StudySpec& spec;

  void operator()(bool holds,
                  const char* refused,
                  const char* rule,
                  const std::string& value,
                  std::string_view key = "") const {
    if (holds) return;
    const Error error = usage_error({.refused = refused, .rule = rule, .value = value});
    throw at_place(spec, key.empty() ? refused : key, error);
  }
};

}  // namespace

StudySpec::Scope parse_scope(std::string_view text) {
  if (text == "last") return StudySpec::Scope::kLast;
  if (text == "best") return StudySpec::Scope::kBest;
  throw usage_error({.refused = "scope",
                     .rule = "it is last or best",
                     .value = std::string(text),
                     .hint = "which report of a trial counts as its result"});
}

std::string_view name_of(StudySpec::Scope scope) {
  return scope == StudySpec::Scope::kBest ? "best" : "last";
}

std::string place_key(std::string_view parameter) { return concat("space.", parameter); }

Error at_place(const StudySpec& spec, std::string_view key, const Error& said) {
  const auto place = spec.places.find(std::string(key));
  ErrorText text = said.text();
  const bool has_one = std::ranges::any_of(
      spec.places, [&](const auto& other) { return text.refused.starts_with(other.second); });
  if (place == spec.places.end() || has_one) return said;
  text.refused = concat(place->second, ": ", text.refused);
  return {said.kind(), std::move(text)};
}

void set_objectives(StudySpec& spec, std::vector<Objective> objectives) {
  if (objectives.empty()) return;
  spec.metric = objectives[0].metric;
  spec.mode = objectives[0].mode;
  if (objectives.size() == 1) objectives.clear();
  spec.goals.objectives = std::move(objectives);
}

namespace {

/// What goes by one metric does not go with several.
void check_goals(const StudySpec& spec, const Requirement& require) {
  const auto& objectives = spec.goals.objectives;
  if (objectives.empty()) return;
  std::vector<std::string> names;
  for (const Objective& objective : objectives) names.push_back(objective.metric);
  const std::string all = join(names, ", ");
  std::ranges::sort(names);
  require(std::ranges::adjacent_find(names) == names.end(),
          "objectives",
          "each is another metric",
          all);
  require(objectives.size() > 1 && objectives[0] == Objective{spec.metric, spec.mode},
          "objectives",
          "there are several, and the first is the study's metric and mode",
          all);
  require(spec.scope == StudySpec::Scope::kLast,
          "scope",
          "of several objectives the newest numbers are the result",
          "best");
  require(spec.plateau.patience == 0,
          "plateau",
          "it goes by one metric, and the study has several",
          all);
}

}  // namespace

namespace {

/// Names of files that the study needs.
void check_paths(const StudySpec& spec) {
  located(spec, "storage", [&] {
    if (!spec.storage.empty())
      require_nameable(file_of_study(spec.storage, spec.name, "lock"),
                       "storage, with what is added for files beside it");
  });
  located(spec, "trial_folder", [&] { require_nameable(spec.trial_folder, "trial_folder"); });
  located(spec, "working_folder", [&] { require_nameable(spec.working_folder, "working_folder"); });
}

}  // namespace

void check_study(const StudySpec& spec) {
  const Requirement require{spec};
  require(!spec.name.empty(), "study without a name", "name = \"…\" names it", "", kWholeFile);
  require(spec.name.find_first_of("/\n\r\t") == std::string::npos && spec.name != "." &&
              spec.name != "..",
          "name",
          "it names a file, so it has no slash and is one line",
          spec.name);
  require(!spec.metric.empty(),
          "study without a metric",
          "metric = \"…\" is what trials report",
          "",
          kWholeFile);
  check_goals(spec, require);
  check_paths(spec);
  require(spec.num_samples > 0 || spec.num_samples == -1,
          "num_samples",
          "it is at least 1, or -1 for no end",
          concat(spec.num_samples));
  require(spec.plateau.patience != 0 || spec.plateau == Plateau{},
          "plateau",
          "patience says after how many reports without improvement a trial ends",
          concat("min_delta=",
                 shortest(spec.plateau.min_delta),
                 ", grace_period=",
                 spec.plateau.grace_period));
  require(spec.max_concurrent >= 0,
          "max_concurrent",
          "it is at least 1, or 0 for what fits",
          concat(spec.max_concurrent));
  require(spec.give_up_after >= 0,
          "give_up_after",
          "it is at least 1, or 0 for never",
          concat(spec.give_up_after));
  require(spec.keep_checkpoints >= 0,
          "keep_checkpoints",
          "of each trial at least 1, or 0 for all",
          concat(spec.keep_checkpoints));
  require(spec.ask_lease_s > 0,
          "ask_lease",
          "a trial that was asked for is kept for its asker a while",
          human_duration(spec.ask_lease_s));
  for (const auto& [name, seconds] : {std::pair{"time_budget_s", spec.time_budget_s},
                                      {"trial_timeout_s", spec.trial_timeout_s},
                                      {"report_timeout_s", spec.report_timeout_s},
                                      {"storage_patience_s", spec.storage_patience_s},
                                      {"stop_grace_s", spec.stop_grace_s},
                                      {"kill_grace_s", spec.kill_grace_s}}) {
    require(seconds >= 0, name, "seconds, at least 0", shortest(seconds));
  }
  const bool alike =
      std::ranges::adjacent_find(spec.failures, std::not_equal_to<>(), &FailurePolicy::retries) ==
      spec.failures.end();
  for (const FailurePolicy& policy : spec.failures) {
    require(policy.retries >= -1,
            alike ? "max_failures" : "retries",  // one number for all is what users call so
            "at least 0, or -1 for no end",
            concat(policy.retries));
    require(policy.backoff_s >= 0 && policy.backoff_factor >= 1,
            "back-off",
            "backoff_s is at least 0 and backoff_factor at least 1",
            concat(shortest(policy.backoff_s), ", ", shortest(policy.backoff_factor)));
  }
}

}  // namespace muster::tune
