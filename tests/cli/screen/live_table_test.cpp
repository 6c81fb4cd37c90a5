#include "cli/screen/live_table.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/base/text_table.h"

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

tune::StudySpec fashion() {
  return {.name = "fashion",
          .metric = "loss",
          .mode = tune::Mode::kMin,
          .num_samples = 30,
          .space = {{"lr", tune::uniform(0, 1)}, {"l1", tune::randint(2, 9)}}};
}

/// A study of thirty trials, the first of which has failed, the second is over, the third runs.
struct Study {
  tune::StudyCore core{fashion()};
  std::vector<tune::Event> events;
  tune::StatusFacts facts{.now_s = 110, .started_s = 100, .planned = 30};

  Study() {
    for (int i = 0; i < 3; ++i) core.next(100);
    core.ended(0, tune::Failure::kCrash, "exit code 1", 101);
    core.report(1, {.step = 1, .metrics = {{"loss", 0.25}}}, 102);
    core.ended(1, tune::Failure::kNone, "", 103);
    events = core.take_events();
  }
};

TEST(LiveTable, PrintsALinePerChangeAndTheClosingTableIntoALog) {
  std::ostringstream out, err;
  program::Console console(out, err, false, false);
  Study study;
  LiveTable table(console, {.width = 100});
  table.on_events(study.core, study.events);
  table.redraw(study.core, study.facts);
  table.finish(study.core, study.facts);
  EXPECT_EQ(out.str(), "");
  EXPECT_THAT(
      err.str(),
      AllOf(HasSubstr("trial 0 started  [lr="),
            HasSubstr("\ntrial 0 failed (crash): exit code 1  [lr="),
            HasSubstr("\ntrial 1 finished at step 1 with loss=0.25 in 3.0s; the best so far"),
            HasSubstr("\n== Status ==\n"),
            HasSubstr("\n3 trials: 1 finished, 1 failed (1 crash), 1 running; 1 step; 10.0s\n")));
  EXPECT_EQ(err.str().find("== Status"), err.str().rfind("== Status")) << "one table, at the end";
  EXPECT_EQ(err.str().find('\x1b'), std::string::npos);
}

TEST(LiveTable, DrawsTheTableOnATerminalWithFailuresAboveIt) {
  std::ostringstream out, err;
  program::Console console(out, err, true, true);
  Study study;
  LiveTable table(console, {});
  table.on_events(study.core, study.events);
  table.redraw(study.core, study.facts);
  table.finish(study.core, study.facts);
  EXPECT_THAT(err.str(),
              AllOf(HasSubstr("trial 0 failed (crash)"), Not(HasSubstr("trial 0 started"))));
  EXPECT_LT(err.str().find("trial 0 failed"), err.str().find("== Status"));
  EXPECT_THAT(err.str(), Not(HasSubstr("\x1b[?25"))) << "the cursor is never hidden";
}

TEST(LiveTable, TheClosingTableLeavesItsHeadInSight) {
  std::string written;
  Study study;
  for (int i = 0; i < 27; ++i) study.core.next(104);
  {
    program::ScreenWriter::Options screen{.write = [&](std::string_view text) { written += text; },
                                          .terminal = true};
    LiveTable table(std::move(screen), {});
    table.finish(study.core, study.facts);
  }
  const std::string last = written.substr(written.rfind("== Status =="));
  EXPECT_LE(std::ranges::count(last, '\n'), 24 - 3) << last;
  EXPECT_THAT(last, HasSubstr("more trials not shown"));
}

TEST(LiveTable, FitsTheWindow) {
  const tune::StatusOptions options;
  Study study;
  for (int i = 0; i < 27; ++i) study.core.next(104);
  for (size_t columns : {30, 80, 200}) {
    for (size_t rows : {30, 60, 100}) {
      if (columns == 30 && rows == 30) continue;  // the writer leaves out what is below
      const std::string table = table_within(study.core, study.facts, options, {columns, rows});
      EXPECT_LT(std::ranges::count(table, '\n'), rows) << table;
      for (size_t at = 0; at < table.size();) {
        const size_t end = table.find('\n', at);
        EXPECT_LT(columns_of(table.substr(at, end - at)), columns);
        at = end + 1;
      }
    }
  }
}

// Eight parameters with long names, of 60 trials, in the window that every terminal has at least.
TEST(LiveTable, ShowsAllThatRunAndTheMetricInASmallWindowRatherThanAllParameters) {
  std::vector<tune::Parameter> parameters;
  for (int i = 0; i < 8; ++i)
    parameters.push_back({concat("parameter_with_a_long_name_", i), tune::uniform(0, 1)});
  parameters.push_back({"constant", 3});
  tune::StudyCore core({.name = "s",
                        .metric = "loss_of_validation",
                        .mode = tune::Mode::kMin,
                        .num_samples = 60,
                        .space = tune::Space(parameters)});
  const std::string why = "a line that is longer than the window is wide, " + std::string(300, 'x');
  for (int i = 0; i < 30; ++i) {
    core.next(100);
    core.report(i, {.step = 1, .metrics = {{"loss_of_validation", 0.25}, {"accuracy", 0.5}}}, 102);
    if (i < 27) core.ended(i, i % 4 == 3 ? tune::Failure::kCrash : tune::Failure::kNone, why, 103);
  }
  const tune::StatusFacts facts{.now_s = 110, .started_s = 100, .planned = 60};
  const std::string table = table_within(core, facts, {}, {80, 24});
  EXPECT_LT(std::ranges::count(table, '\n'), 24) << table;
  for (const char* running : {"s_00027", "s_00028", "s_00029"})
    EXPECT_THAT(table, HasSubstr(concat("| ", running, "    | RUNNING"))) << table;
  EXPECT_THAT(table, HasSubstr("...alidation |")) << table;  // the study's metric
  EXPECT_THAT(table, HasSubstr("accuracy |")) << table;
  EXPECT_THAT(table, HasSubstr("more trials not shown")) << table;
  EXPECT_THAT(table, HasSubstr("have no room: constant, ")) << table;
  EXPECT_THAT(table, HasSubstr("Current best trial: s_00000 with loss_of_validation=0.25"))
      << table;
  EXPECT_THAT(table, HasSubstr("Number of errored trials: 6; the newest:\ns_00023: a line"));
  // A high window has all of them, in several grids.
  EXPECT_THAT(table_within(core, facts, {}, {80, 200}), Not(HasSubstr("no room")));
}

}  // namespace
}  // namespace muster::cli
