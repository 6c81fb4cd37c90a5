// ASHA against Ray Tune's, and quantiles against numpy's, from tests/golden/tune_asha/golden.json.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/tune/schedule/asha/asha_options.h"
#include "muster/tune/schedule/asha/rung_ladder.h"
#include "muster/tune/schedule/running_quantile.h"
#include "muster/tune/schedule/scheduler.h"

#include "tests/support/golden.h"
#include "tests/tune/golden_values.h"

namespace muster::tune {
namespace {

using test::number_of;
using test::state_of;

const Json& asha_golden() {
  static const Json json = test::read_golden("tune_asha");
  return json;
}

AshaOptions options_of(const Json& json) {
  AshaOptions options{.ray_compat = true};
  options.max_t = json.at("max_t");
  options.grace_period = json.at("grace_period");
  options.reduction_factor = json.at("reduction_factor");
  options.stop_last_trials = json.value("stop_last_trials", true);
  return options;
}

/// "C" or "S" for each report, as ray_asha.py writes it.
std::string answers_of(const Json& a_case) {
  const Mode mode = parse_mode(a_case.at("mode").get<std::string>());
  const auto scheduler = make_scheduler(asha(options_of(a_case.at("options"))), {.mode = mode});
  std::string answers;
  for (const Json& event : a_case.at("events")) {
    const int64_t trial = event[0];
    if (event[1] == "end") {
      scheduler->on_end(trial, state_of(event[2]));
      continue;
    }
    const Decision decision =
        scheduler->on_report(trial, event[1], score_of(number_of(event[2]), mode));
    answers += decision.action == Action::kContinue ? 'C' : 'S';
  }
  return answers;
}

TEST(AshaGolden, InRayCompatEveryVerdictIsRays) {
  for (const Json& a_case : asha_golden().at("cases")) {
    const std::string expected = a_case.at("answers");
    EXPECT_EQ(answers_of(a_case), expected) << a_case.at("options");
    EXPECT_GT(std::ranges::count(expected, 'C'), 10);
    EXPECT_GT(std::ranges::count(expected, 'S'), 10);
  }
}

TEST(AshaGolden, InRayCompatTheRungsAreRays) {
  for (const Json& ladder : asha_golden().at("ladders")) {
    EXPECT_EQ(ray_rung_ladder(
                  ladder.at("grace_period"), ladder.at("max_t"), ladder.at("reduction_factor"), 0),
              ladder.at("rungs").get<std::vector<double>>())
        << ladder;
  }
}

TEST(AshaGolden, ARunningQuantileIsNumpysBitForBit) {
  for (const Json& expected : asha_golden().at("quantiles")) {
    RunningQuantile quantile((1 - 1 / expected.at("reduction_factor").get<double>()) * 100 / 100);
    for (size_t i = 0; i < expected.at("numbers").size(); ++i) {
      quantile.add(expected.at("numbers")[i]);
      EXPECT_EQ(quantile.value(), expected.at("values")[i].get<double>())
          << "after " << i + 1 << " numbers, " << expected.at("reduction_factor");
    }
  }
}

}  // namespace
}  // namespace muster::tune
