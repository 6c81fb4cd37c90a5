// Median stopping against Ray Tune's rule and Optuna's pruner, from tests/golden/tune_median/golden.json.
#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/tune/schedule/median/median_options.h"
#include "muster/tune/schedule/scheduler.h"

#include "tests/support/golden.h"

namespace muster::tune {
namespace {

double median_number(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (json == "nan") return std::numeric_limits<double>::quiet_NaN();
  return std::numeric_limits<double>::infinity() * (json == "-inf" ? -1 : 1);
}

TrialState median_state(const std::string& name) {
  if (name == "failed") return TrialState::kFailed;
  return name == "pruned" ? TrialState::kPruned : TrialState::kComplete;
}

std::string median_spec(const Json& a_case) {
  const Json& json = a_case.at("options");
  MedianOptions options{.rule = a_case.at("rule").get<std::string>()};
  options.grace_period = json.value("grace_period", options.grace_period);
  options.min_samples_required = json.value("min_samples_required", options.min_samples_required);
  options.hard_stop = json.value("hard_stop", options.hard_stop);
  options.percentile = json.value("percentile", options.percentile);
  options.n_startup_trials = json.value("n_startup_trials", options.n_startup_trials);
  options.n_warmup_steps = json.value("n_warmup_steps", options.n_warmup_steps);
  options.interval_steps = json.value("interval_steps", options.interval_steps);
  options.n_min_trials = json.value("n_min_trials", options.n_min_trials);
  return median(options);
}

/// "C", "S" or "P" for each report, as peers.py writes it.
std::string median_answers(const Json& a_case) {
  const Mode mode = parse_mode(a_case.at("mode").get<std::string>());
  const auto scheduler = make_scheduler(median_spec(a_case), {.mode = mode});
  std::string answers;
  for (const Json& event : a_case.at("events")) {
    const int64_t trial = event[0];
    if (event[1] == "end") {
      scheduler->on_end(trial, median_state(event[2]));
      continue;
    }
    const Decision decision =
        scheduler->on_report(trial, event[1], score_of(median_number(event[2]), mode));
    answers += "CPS"[static_cast<size_t>(decision.action)];
  }
  return answers;
}

TEST(MedianGolden, EveryVerdictIsRaysOrOptunas) {
  const Json golden = test::read_golden("tune_median");
  for (const Json& a_case : golden.at("cases")) {
    const std::string expected = a_case.at("answers");
    EXPECT_EQ(median_answers(a_case), expected) << a_case.at("rule") << a_case.at("options");
    EXPECT_GT(std::ranges::count(expected, 'C'), 100);
    EXPECT_LT(std::ranges::count(expected, 'C'), static_cast<int64_t>(expected.size()) - 10);
  }
}

}  // namespace
}  // namespace muster::tune
