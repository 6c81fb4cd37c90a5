#include "muster/tune/views/status_view.h"

#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/base/text_table.h"
#include "muster/tune/views/study_view.h"

#include "tests/support/numbers.h"
#include "tests/support/paths.h"

namespace muster::tune {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using test::kNan;

std::string golden(const std::string& name) {
  std::ifstream in(test::source_path("tests/golden/tune_view/") + name);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> lines_of(const std::string& text) {
  auto lines = split(text, '\n');
  EXPECT_EQ(lines.back(), "") << "the last line is not ended";
  lines.pop_back();
  return lines;
}

/// The lines of the trial table, and those that start with `heads`.
std::string grid_of(const std::string& table, const std::string& head = "+") {
  std::string out;
  for (const std::string& line : lines_of(table))
    if (line.starts_with('+') || line.starts_with('|') || line.starts_with(head))
      out += line + '\n';
  return out;
}

size_t widest(const std::string& text) {
  size_t most = 0;
  for (const std::string& line : lines_of(text)) most = std::max(most, columns_of(line));
  return most;
}

Trial trial(int64_t number, TrialState state, Values values) {
  Trial out{.number = number, .values = std::move(values), .state = state, .attempt = 1};
  out.last_metric = out.best_metric = kNan;
  return out;
}

void has_reported(Trial& trial, int64_t iterations, double seconds, double loss, double accuracy) {
  trial.reports = trial.last_t = iterations;
  trial.run_s = seconds;
  trial.last_metrics = {{"loss", loss}, {"accuracy", accuracy}};
  trial.last_metric = trial.best_metric = accuracy;
}

/// The trials of tests/golden/tune_view/make_golden.py.
struct Fashion {
  std::vector<Trial> trials = {
      trial(0, TrialState::kComplete, {0.012345678, 64, 8, "none"}),
      trial(1, TrialState::kRunning, {1e-4, 256, 16, "flip"}),
      trial(2, TrialState::kPruned, {0.1, 4, 2, "crop"}),
      trial(3, TrialState::kPending, {0.03, 128, 4, "none"}),
      trial(4, TrialState::kPaused, {2.5e-05, 16, 4, "none"}),
      trial(5, TrialState::kRunning, {0.001, 32, 8, "flip"}),
  };
  StatusFacts facts{.now_s = 1000,
                    .started_s = 900,
                    .planned = -1,
                    .locations = {{1, "node1:4242"}, {5, "node1:77"}}};
  StatusOptions options{.width = 200,
                        .metric_columns = {{"training_iteration", "iter"},
                                           {"time_total_s", "total time (s)"},
                                           {"loss", "loss"},
                                           {"accuracy", "acc"}}};

  Fashion() {
    has_reported(trials[0], 10, 12.25, 0.412345678, 0.8712);
    has_reported(trials[1], 3, 4.5, 0.6, 0.75);
    trials[1].attempt_s = 1000;
    has_reported(trials[2], 1, 0.75, kNan, 0.1);
    has_reported(trials[4], 2, 123.456789, 1234567.0, 0.5);
  }

  StudyView view() const {
    return {.trials = trials,
            .best = &trials[0],
            .best_result = 0.8712,
            .name = "fashion",
            .metric = "accuracy",
            .mode = Mode::kMax,
            .parameters = {"lr", "l1", "batch_size", "data.augmentation"},
            .scheduler = "asha: rungs 1 2 4 8"};
  }
  std::string table() const { return status_table(view(), facts, options); }
};

TEST(StatusTable, HasTheGridAndCountsThatRayTunePrints) {
  const std::string table = Fashion().table();
  EXPECT_EQ(grid_of(table), grid_of(golden("status.txt")));
  // Ray sorts the states of this line by name; ours stand in the order of the table.
  EXPECT_THAT(table,
              HasSubstr("Number of trials: 6 (2 RUNNING, 1 PAUSED, 1 PENDING, 2 TERMINATED)\n"));
}

TEST(StatusTable, SharesRowsOverTheStatesAndCountsTheRestAsRayTune) {
  Fashion study;
  for (int copy = 1; copy < 3; ++copy) {
    for (int i = 0; i < 6; ++i) {
      study.trials.push_back(study.trials[static_cast<size_t>(i)]);
      study.trials.back().number += 6 * copy;
    }
  }
  study.options.max_rows = 8;
  const std::string table = study.table();
  EXPECT_THAT(table, HasSubstr("\n" + golden("truncated.txt")));
  EXPECT_EQ(lines_of(grid_of(table)).size(), 8u + 4u);
  // Of the ones that are over, the newest are shown.
  EXPECT_THAT(table, HasSubstr("| fashion_00014 | TERMINATED |"));
  EXPECT_THAT(table, Not(HasSubstr("fashion_00000 |")));
}

TEST(StatusTable, SaysWhatThereIsBesidesTheTrials) {
  Fashion study;
  study.facts.planned = 20;
  study.facts.resources = "cpu 2/2, gpu 0/1";
  study.facts.pending_why = "needs 1 gpu, 0 free of 1";
  study.facts.storage = "fashion.db";
  const std::string table = study.table();
  EXPECT_THAT(table, HasSubstr("== Status ==\nCurrent time: 1970-01-01 "));
  EXPECT_THAT(table, HasSubstr("(running for 1m40s), about "));
  EXPECT_THAT(table, HasSubstr("\nasha: rungs 1 2 4 8\nResources: cpu 2/2, gpu 0/1\n"));
  EXPECT_THAT(table, HasSubstr("\nStorage: fashion.db\n"));
  EXPECT_THAT(table,
              HasSubstr("\nCurrent best trial: fashion_00000 with accuracy=0.8712 and parameters "
                        "lr=0.012345678 l1=64 batch_size=8 data.augmentation=none\n"));
  EXPECT_THAT(table, HasSubstr("\nNumber of trials: 6/20 (2 RUNNING"));
  EXPECT_THAT(table, HasSubstr("\nPending: needs 1 gpu, 0 free of 1\n"));
  study.options.final = true;
  EXPECT_THAT(study.table(), Not(HasSubstr(" left")));
}

TEST(StatusTable, InfersTheMetricsWithTheStudysFirst) {
  Fashion study;
  study.options.metric_columns.clear();
  const auto lines = lines_of(grid_of(study.table()));
  EXPECT_THAT(lines[1],
              ::testing::EndsWith("|   iter |   total time (s) |   accuracy |          loss |"));
  study.trials[0].last_t = 100;
  EXPECT_THAT(lines_of(grid_of(study.table()))[1], HasSubstr("|   iter |   step |"));
}

TEST(StatusTable, ShowsWhatDoesNotApplyAsNothing) {
  Fashion study;
  study.trials[0].values[1] = Value();
  const std::string table = study.table();
  EXPECT_THAT(table, Not(HasSubstr("l1= ")));
  EXPECT_THAT(table, HasSubstr("parameters lr=0.012345678 batch_size=8 data"));
}

TEST(StatusTable, FitsEveryWidthAndStillShowsEveryParameter) {
  Fashion study;
  study.trials[3].values[3] = "a value that is much too long for any column";
  study.trials[4].state = TrialState::kFailed;
  study.trials[4].failure = Failure::kCrash;
  study.trials[4].reason = "exit code 1: ValueError: cannot broadcast 3 to 4 dimensions";
  for (size_t width = 16; width <= 180; ++width) {
    study.options.width = width;
    const std::string table = study.table();
    ASSERT_LE(widest(table), width) << table;
    if (width < 40) continue;
    for (const char* header : {"batch_size", "lr", "l1", "mentation", "loss", "acc", "status"})
      ASSERT_THAT(table, HasSubstr(std::string(header) + " ")) << width;
  }
}

TEST(StatusTable, GivesUpTheLocationAndTheTimeFirst) {
  Fashion study;
  study.options.metric_columns.clear();
  study.options.width = 200;
  ASSERT_EQ(widest(study.table()), 156u);
  study.options.width = 146;
  EXPECT_THAT(study.table(), HasSubstr("| loc"));  // padding is less
  study.options.width = 133;
  EXPECT_THAT(study.table(), Not(HasSubstr("| loc")));
  EXPECT_THAT(study.table(), HasSubstr("total time"));
  study.options.width = 116;
  EXPECT_THAT(study.table(), Not(HasSubstr("total time")));
  EXPECT_THAT(study.table(), HasSubstr("0.412346")) << "digits are still there";
}

TEST(StatusTable, CountsWideLettersAndMarksAsTheTerminalDoes) {
  EXPECT_EQ(columns_of("plain"), 5u);
  EXPECT_EQ(columns_of("試験"), 4u);
  EXPECT_EQ(columns_of("e\u0301t\u00e9"), 3u);
  EXPECT_EQ(columns_of("🚀"), 2u);
  EXPECT_EQ(columns_of("\xff\xfe"), 2u);
  Fashion study;
  study.trials[0].values[3] = "水平反転";
  study.trials[1].values[3] = "été";
  for (size_t width : {200, 100, 60, 30, 17}) {
    study.options.width = width;
    const std::string table = study.table();
    ASSERT_LE(widest(table), width);
    size_t columns = 0;  // of the grid that a line belongs to
    for (const std::string& line : lines_of(grid_of(table))) {
      if (line.starts_with("+-")) columns = columns_of(line);
      ASSERT_EQ(columns_of(line), columns) << table;
    }
  }
}

TEST(StatusTable, TakesControlCharactersAndBrokenTextOutOfNamesAndReasons) {
  Fashion study;
  study.trials[0].values[3] = "a\x1b[2Jb\nc\xc3";
  study.trials[4].state = TrialState::kFailed;
  study.trials[4].reason = "\x1b[31mred\r";
  const std::string table = study.table();
  EXPECT_THAT(table, HasSubstr("a?[2Jb?c?"));
  EXPECT_THAT(table, HasSubstr("?[31mred?"));
  EXPECT_EQ(table.find('\x1b'), std::string::npos);
}

TEST(StatusTable, KeepsTheTailOfLongTexts) {
  EXPECT_EQ(keep_tail("exactly twenty chars", 20), "exactly twenty chars");
  EXPECT_EQ(keep_tail("a study with a long name_00003", 20), "...a long name_00003");
  EXPECT_EQ(keep_tail("試験試験試験", 7), "...試験");
  for (size_t columns = 0; columns < 12; ++columns)
    EXPECT_LE(columns_of(keep_tail("試験 and more", columns)), columns);
}

TEST(StatusTable, HasASecondTableForWhatWentWrong) {
  Fashion study;
  study.trials[2].state = TrialState::kFailed;
  study.trials[2].attempt = 3;
  study.trials[2].failure = Failure::kOutOfMemory;
  study.trials[2].reason = "killed by SIGKILL";
  study.trials[3].failure = Failure::kCrash;  // waits for another attempt
  study.trials[3].reason = "exit code 1";
  study.options.width = 100;
  const std::string table = study.table();
  const std::string errors = table.substr(table.find("Number of errored"));
  EXPECT_EQ(errors,
            "Number of errored trials: 2\n"
            "+---------------+--------------+-----------+\n"
            "| Trial name    |   # attempts | failure   |\n"
            "|---------------+--------------+-----------|\n"
            "| fashion_00002 |            3 | oom       |\n"
            "| fashion_00003 |            1 | crash     |\n"
            "+---------------+--------------+-----------+\n"
            "fashion_00002: killed by SIGKILL\n"
            "fashion_00003: exit code 1\n");
}

TEST(StatusTable, NamesTheFolderOfAFailedTrialInFull) {
  Fashion study;
  study.trials[2].state = TrialState::kFailed;
  study.trials[2].reason = "exit code 1";
  auto view = study.view();
  view.trial_folder = "/home/someone/with/a/long/path/fashion-trials";
  study.options.width = 200;
  EXPECT_THAT(status_table(view, study.facts, study.options),
              HasSubstr("fashion_00002: exit code 1; see " + output_folder(view, 2)));
}

TEST(StatusTable, SortsFinishedTrialsByTheMetricWithNanLast) {
  Fashion study;
  for (int i = 0; i < 4; ++i) {
    study.trials.push_back(trial(6 + i, TrialState::kComplete, {0.1, 1, 1, "none"}));
    has_reported(study.trials.back(), 1, 1, 1, i == 1 ? kNan : 0.5 + 0.1 * i);
  }
  study.options.sort_by_metric = true;
  const std::string table = study.table();
  std::vector<size_t> at;
  for (const char* name : {"_00000 | TERM",
                           "_00009 | TERM",
                           "_00008 | TERM",
                           "_00006 | TERM",
                           "_00002 | TERM",
                           "_00007 | TERM"})
    at.push_back(table.find(name));
  EXPECT_TRUE(std::ranges::is_sorted(at)) << table;
  EXPECT_NE(at.back(), std::string::npos);
}

TEST(StatusTable, OfTenThousandTrialsTakesAFewMilliseconds) {
  Fashion study;
  for (int64_t i = 6; i < 10000; ++i) {
    study.trials.push_back(study.trials[static_cast<size_t>(i % 6)]);
    study.trials.back().number = i;
  }
  study.facts.planned = 20000;
  const std::clock_t start = std::clock();  // of the processor: others may have it meanwhile
  for (int i = 0; i < 20; ++i) EXPECT_EQ(lines_of(grid_of(study.table())).size(), 24u);
  const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(took / 20, 0.05);  // 2 ms in a release build
}

TEST(SecondsLeft, ComesFromTheMeanTimeOfWhatIsOverAndHowManyRun) {
  Fashion study;
  study.facts.planned = 6;
  // Over: 12.25 and 0.75 s, so 6.5 s each. Four are left; of them 4.5 s, at most 6.5 s and 0 s are
  // done, the last one started now.
  study.trials[5].attempt_s = 1000;
  EXPECT_DOUBLE_EQ(seconds_left(study.view(), study.facts), (4 * 6.5 - 4.5 - 6.5) / 2);
  study.facts.planned = -1;
  EXPECT_LT(seconds_left(study.view(), study.facts), 0) << "without end";
  auto view = study.view();
  view.time_budget_s = 130;
  EXPECT_DOUBLE_EQ(seconds_left(view, study.facts), 30);
}

TEST(EventLine, SaysEachChangeInOneLine) {
  const Fashion study;
  const auto line = [&](int64_t trial, auto what) {
    return event_line(study.view(), Event{.id = 1, .trial = trial, .what = what}).value_or("");
  };
  EXPECT_EQ(line(1, TrialAdded{}), "");
  EXPECT_EQ(line(1, AttemptStarted{}),
            "trial 1 started  [lr=0.0001 l1=256 batch_size=16 data.augmentation=flip]");
  EXPECT_THAT(
      line(1,
           AttemptStarted{
               .attempt = 2, .from_checkpoint = "c/4", .reason = "promoted to rung 4: 2 of 6"}),
      HasSubstr("trial 1 goes on, attempt 2 from c/4: promoted to rung 4: 2 of 6  [lr="));
  EXPECT_EQ(line(1, Reported{.t = 4}), "");
  EXPECT_THAT(
      line(2,
           Reported{.t = 4,
                    .decision = {.action = Action::kStop,
                                 .reason = "stopped at rung 4: 0.412 < cutoff 0.437 (n=9)"}}),
      HasSubstr("trial 2 stopped at rung 4: 0.412 < cutoff 0.437 (n=9)  [lr=0.1"));
  EXPECT_EQ(line(2, AttemptEnded{.then = TrialState::kPruned}), "");
  EXPECT_THAT(
      line(0, AttemptEnded{}),
      HasSubstr(
          "trial 0 finished at step 10 with accuracy=0.8712 in 12.2s; the best so far  [lr="));
  EXPECT_THAT(line(4, AttemptEnded{.message = "accuracy 0.5 >= 0.5"}),
              HasSubstr(" in 2m03s: accuracy 0.5 >= 0.5; best is trial 0 with 0.8712  ["));
  EXPECT_THAT(line(1,
                   AttemptEnded{.failure = Failure::kCrash,
                                .message = "exit code 1",
                                .then = TrialState::kPending,
                                .retry_in_s = 2}),
              ::testing::StartsWith("trial 1 failed (crash): exit code 1"));
  EXPECT_EQ(line(-1, TunerNote{"started (process 12)"}), "tuner: started (process 12)");
  EXPECT_EQ(line(-1, TunerNote{"waits in vain: why\nhint: this"}),
            "tuner: waits in vain: why; hint: this");
}

TEST(Summary, CountsTrialsAndStepsAndNamesTheBest) {
  Fashion study;
  study.trials[3].state = TrialState::kFailed;
  study.trials[3].failure = Failure::kNan;
  study.facts.storage = "fashion.db";
  EXPECT_EQ(summary(study.view(), study.facts),
            "6 trials: 1 finished, 1 stopped early, 1 failed (1 nan), 2 running, 1 paused; 16 "
            "steps; 1m40s\n"
            "storage: fashion.db\n"
            "best trial: 0 with accuracy=0.8712  [lr=0.012345678 l1=64 batch_size=8 "
            "data.augmentation=none]\n");
}

TEST(Summary, AndBudgetCountTheTimeOfTheProcessesBeforeToo) {
  Fashion study;
  study.facts.before_s = 200;
  EXPECT_THAT(summary(study.view(), study.facts), HasSubstr("steps; 5m00s\n"));
  StudyView view = study.view();
  view.time_budget_s = 400;
  EXPECT_EQ(seconds_left(view, study.facts), 400 - 200 - 100);
}

TEST(Summary, SaysThatNothingWasReported) {
  const StudyView view{.name = "empty", .metric = "loss"};
  EXPECT_EQ(summary(view, {.now_s = 2, .started_s = 1}),
            "0 trials: none; 1.0s\nno trial has reported loss\n");
}

}  // namespace
}  // namespace muster::tune
