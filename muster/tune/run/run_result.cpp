// What a run leaves, and what its trials are given.
#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/run/run.h"
#include "muster/tune/views/export.h"

namespace muster::tune {

const Value& Config::operator[](std::string_view name) const {
  if (const auto index = space_->index_of(name)) return (*values_)[*index];
  std::vector<std::string> names;
  for (const Parameter& parameter : space_->parameters()) names.push_back(parameter.name);
  throw usage_error(
      {.refused = concat("unknown parameter \"", name, '"'), .hint = suggestion(name, names)});
}

const Trial& RunResult::best_trial() const {
  if (!best) {
    const auto failed = std::find_if(trials.begin(), trials.end(), [](const Trial& trial) {
      return trial.failure != Failure::kNone && !trial.reason.empty();
    });
    throw usage_error(
        {.refused = "the best trial",
         .rule = "a trial ended in order with a metric that is a number",
         .value = concat(trials.size(), " trials"),
         .hint = failed == trials.end()
                     ? ""
                     : concat("trial ", failed->number, " failed: ", failed->reason)});
  }
  return trials[static_cast<size_t>(*best)];
}

Config RunResult::best_config() const { return {space, best_trial().values}; }

const std::string& RunResult::best_checkpoint() const { return best_trial().checkpoint; }

std::string RunResult::table() const {
  if (histories.size() == trials.size()) return to_csv(histories, facts);
  throw usage_error({.refused = "the table of a run",
                     .rule = "it is made of the histories of its trials",
                     .hint = ".histories = true in the RunConfig keeps them"});
}

}  // namespace muster::tune
