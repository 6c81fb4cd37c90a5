// The table of a study of C++ functions: when it is written.
#include "muster/tune/views/table_reporter.h"

#include <cstdint>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tune/run/run.h"

#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

int64_t tables_in(const std::string& text) {
  int64_t count = 0;
  for (size_t at = text.find("== Status =="); at != text.npos;
       at = text.find("== Status ==", at + 1))
    ++count;
  return count;
}

TEST(TableReporter, WritesAtOnceThenNoOftenerThanItIsToldAndAtTheEndWithTheBest) {
  std::ostringstream out;
  const auto reporter = table_reporter(out, {.max_report_frequency = 5});
  StudyCore core(spec_with(2));
  const auto tell = [&] {
    reporter(core, core.take_events());
    return tables_in(out.str());
  };
  start(core, 100);
  EXPECT_EQ(tell(), 1);
  core.report(0, loss(0.5), 104);
  EXPECT_EQ(tell(), 1);
  core.report(0, loss(0.25), 105);
  EXPECT_EQ(tell(), 2);
  start(core, 106);
  core.ended(0, Failure::kNone, "", 107);
  EXPECT_EQ(tell(), 2);
  core.report(1, loss(0.125), 108);
  core.ended(1, Failure::kNone, "", 108);
  EXPECT_EQ(tell(), 3);
  EXPECT_THAT(out.str().substr(out.str().rfind("== Status ==")),
              AllOf(HasSubstr("(running for 8.0s)"),
                    HasSubstr("Number of trials: 2/2 (2 TERMINATED)"),
                    HasSubstr("best trial: 1 with loss=0.125")));
}

TEST(TableReporter, ShowsAStudyOfFunctions) {
  std::ostringstream out;
  run(
      [](TrialHandle& trial) {
        trial.report({{"loss", trial.config["lr"].as_double()}});
      },
      {.config = {{"lr", uniform(0, 1)}},
       .metric = "loss",
       .mode = "min",
       .num_samples = 3,
       .max_concurrent_trials = 1,
       .on_events = table_reporter(out)});
  EXPECT_THAT(out.str(),
              AllOf(HasSubstr("Number of trials: 3/3 (3 TERMINATED)"), HasSubstr("best trial: ")));
}

}  // namespace
}  // namespace muster::tune
