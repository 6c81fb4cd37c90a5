#include "muster/tune/run/tuner_words.h"

#include <vector>

#include "muster/base/text.h"

namespace muster::tune {

Error no_checkpoint(int64_t trial, const std::string& checkpoint) {
  return usage_error(
      {.refused = concat("a report of trial ", trial),
       .rule = "the checkpoint that it names is there",
       .value = checkpoint,
       .hint = "save the checkpoint first, then report it: the trial goes on from it"});
}

std::string unreported_constraints(const StudySpec& spec, int64_t trial, const Report& report) {
  std::vector<std::string> reported, missing;
  for (const auto& metric : report.metrics) reported.push_back(metric.first);
  for (const Constraint& constraint : spec.goals.constraints) {
    if (find_metric(report.metrics, constraint.metric) == nullptr)
      missing.push_back(constraint.metric);
  }
  if (missing.empty()) return "";
  return concat("the first report of trial ",
                trial,
                " has no ",
                join(missing, ", "),
                ", which a constraint names: a trial that never reports it fails (got ",
                join(reported, ", "),
                ")\nhint: ",
                suggestion(missing[0], reported));
}

namespace {

std::vector<std::string> asked_numbers(const StudyCore& core) {
  std::vector<std::string> numbers;
  for (const Trial& trial : core.trials()) {
    if (core.is_asked(trial.number)) numbers.push_back(std::to_string(trial.number));
  }
  return numbers;
}

}  // namespace

std::string waits_for(const StudyCore& core) {
  const std::vector<std::string> numbers = asked_numbers(core);
  return concat("the searcher waits for ",
                numbers.size() == 1 ? "trial " : "trials ",
                join(numbers, ", "),
                numbers.size() == 1 ? ", which is" : ", which are",
                " with others, who asked: `muster study tell` ends the wait, or ",
                human_duration(core.spec().ask_lease_s),
                " without a word");
}

std::string handed_out(const StudyCore& core) {
  const std::vector<std::string> numbers = asked_numbers(core);
  return concat(numbers.size() == 1 ? "trial " : "trials ",
                join(numbers, ", "),
                numbers.size() == 1 ? " is" : " are",
                " with others, who asked: `muster study tell` ends what `ask` began, and this "
                "command goes on");
}

}  // namespace muster::tune
