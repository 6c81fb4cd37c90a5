// The C++ API: searchers and schedulers of the caller's own, callbacks, what a run leaves, how it ends.
#include <atomic>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "muster/base/text.h"
#include "muster/tune/run/run.h"
#include "muster/tune/schedule/asha/asha_options.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/short_files.h"
#include "tests/tune/run/trained.h"

namespace muster::tune {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

/// Walks lr down from 0.1 by a factor of the best so far.
class Descent final : public Searcher {
 public:
  Suggestion suggest(int64_t /*number*/, const Point& partial) override {
    return {.point = keep_fixed({best_ / 2, 0}, partial),
            .reason = concat("half of ", shortest(best_))};
  }
  void told(const FinishedTrial& trial) override {
    if (trial.score > score_) score_ = trial.score, best_ = trial.point[0];
  }

 private:
  double best_ = 0.1, score_ = -HUGE_VAL;
};

/// Each trial has its third report as its last.
class Third final : public Scheduler {
 public:
  Decision on_report(int64_t /*number*/, int64_t t, double /*score*/) override {
    return t < 3 ? Decision{} : Decision{Action::kStop, "has had three", true};
  }
  std::string status() const override { return "third"; }
};

TEST(Run, TakesASearcherAndASchedulerOfTheCallersOwn) {
  const test::Folder folder;
  const RunConfig config{
      .config = lr_space(),
      .metric = "loss",
      .mode = "min",
      .num_samples = 5,
      .scheduler = {"third", [](const SchedulerContext&) { return std::make_unique<Third>(); }},
      .search_alg = {"descent",
                     [](const SearcherContext& context) {
                       EXPECT_EQ(context.num_samples, 5);
                       return std::make_unique<Descent>();
                     }},
      .max_concurrent_trials = 1,
      .storage = folder.path() / "study.db"};
  const RunResult result = run(&train, config);
  ASSERT_EQ(result.trials.size(), 5u);
  EXPECT_EQ(result.trials[0].values[0], Value(0.05));
  EXPECT_EQ(result.trials[1].values[0], Value(0.025));
  for (const Trial& trial : result.trials) {
    EXPECT_EQ(trial.reports, 3);
    EXPECT_EQ(trial.reason, "has had three");
  }
  RunConfig other = config;
  other.scheduler = "fifo";
  EXPECT_THAT(refusal_of([&] { run(&train, other); }), HasSubstr("- scheduler = \"third\""));
  RunConfig nothing = config;
  nothing.name = "nothing";
  nothing.scheduler = {"nobody",
                       [](const SchedulerContext&) { return std::unique_ptr<Scheduler>(); }};
  EXPECT_THAT(refusal_of([&] { run(&train, nothing); }),
              HasSubstr("scheduler nobody: its function makes one"));
}

/// Random, but for trial 2 it thinks until trial 0 has gone on: for ever, if that needs the study.
class Brooding final : public Searcher {
 public:
  Brooding(const SearcherContext& context, std::atomic<int>& reports)
      : space_(context.space), reports_(reports) {}
  Suggestion suggest(int64_t number, const Point& partial) override {
    while (number == 2 && reports_ < 5) reports_.wait(reports_);
    return {.point = draw_open(space_, partial, 1, number)};
  }

 private:
  const Space& space_;
  std::atomic<int>& reports_;
};

TEST(Run, ReportsAreAnsweredWhileTheSearcherThinks) {
  std::atomic<int> reports = 0;
  const RunResult result = run(
      [&](TrialHandle& trial) {
        trial.report({{"loss", 1}});
        while (trial.number == 0 && reports < 9) {
          trial.report({{"loss", 1}});
          ++reports;
          reports.notify_all();
        }
      },
      {.config = lr_space(),
       .metric = "loss",
       .mode = "min",
       .num_samples = 4,
       .resources_per_trial = {.cpu = 0.1},
       .search_alg = {"brooding",
                      [&](const SearcherContext& context) {
                        return std::make_unique<Brooding>(context, reports);
                      }},
       .max_concurrent_trials = 2});
  EXPECT_EQ(result.trials.size(), 4u);
  EXPECT_EQ(reports, 9);
}

// ---- What it leaves ----

TEST(Run, LeavesAllReportsATableAndTheBestTrialsCheckpoint) {
  const test::Folder folder;
  const auto with_checkpoints = [](TrialHandle& trial) {
    for (int64_t step = 1; step <= 3; ++step)
      trial.report({{"loss", std::abs(double(trial.number - 2)) + 1. / double(step)}},
                   {.checkpoint = concat("c", trial.number, '/', step)});
  };
  for (const bool stored : {false, true}) {
    RunConfig config{.config = lr_space(),
                     .metric = "loss",
                     .mode = "min",
                     .num_samples = 4,
                     .max_concurrent_trials = 1,
                     .histories = true};
    if (stored) config.storage = folder.path() / "study.db";
    const RunResult result = run(with_checkpoints, config);
    ASSERT_EQ(result.histories.size(), 4u);
    for (const TrialHistory& trial : result.histories) {
      ASSERT_EQ(trial.rows.size(), 3u);
      EXPECT_EQ(trial.rows[1].metrics[0].second, std::abs(double(trial.number - 2)) + 0.5);
      EXPECT_EQ(trial.values, result.trials[size_t(trial.number)].values);
    }
    EXPECT_EQ(result.best, 2);
    EXPECT_EQ(result.best_checkpoint(), "c2/3");
    EXPECT_EQ(split(result.table(), '\n').size(), 6u)
        << "a header, a line each, and behind the last";
    config.histories = false;
    const RunResult without = run(with_checkpoints, config);
    EXPECT_TRUE(without.histories.empty());
    EXPECT_THAT(refusal_of([&] { without.table(); }), HasSubstr(".histories = true"));
  }
}

TEST(Run, CallsBackForEachReportEachTrialAndTheStudy) {
  int reports = 0, ends = 0, studies = 0;
  const RunConfig config{
      .config = lr_space(),
      .metric = "loss",
      .mode = "min",
      .num_samples = 3,
      .callbacks = {.on_report =
                        [&](const Trial& trial, const Reported& report) {
                          EXPECT_GE(trial.last_t, report.t);
                          ++reports;
                        },
                    .on_trial_end = [&](const Trial& trial) { ends += is_over(trial.state); },
                    .on_study_end =
                        [&](const RunResult& result) {
                          EXPECT_EQ(result.trials.size(), 3u);
                          ++studies;
                        }}};
  run(&train, config);
  EXPECT_EQ(reports, 3 * 8);
  EXPECT_EQ(ends, 3);
  EXPECT_EQ(studies, 1);
}

// ---- What may go wrong ----

TEST(Run, ATrialThatIsOverATimeoutIsToldAtItsNextReportAndHasFailed) {
  for (const bool whole : {false, true}) {
    RunConfig config{.config = lr_space(), .metric = "loss", .mode = "min", .num_samples = 1};
    (whole ? config.trial_timeout_s : config.report_timeout_s) = 1e-9;  // any time is longer
    config.failures = {{Failure::kTimeout, {.retries = 1, .backoff_s = 0}}};
    int calls = 0;
    const RunResult result = run(
        [&](TrialHandle& trial) {
          ++calls;
          EXPECT_EQ(trial.report({{"loss", 1}}), Action::kStop);
          EXPECT_THAT(trial.reason(), HasSubstr(whole ? "ran longer than" : "no report for"));
        },
        config);
    EXPECT_EQ(calls, 2) << "one retry, of this class alone";
    EXPECT_EQ(result.trials[0].state, TrialState::kFailed);
    EXPECT_EQ(result.trials[0].failure, Failure::kTimeout);
  }
}

TEST(Run, ClassesOfFailuresHaveTheirOwnRetriesAndNanIsOneIfSaidSo) {
  std::map<int64_t, int> calls;
  const RunResult result = run(
      [&](TrialHandle& trial) {
        ++calls[trial.number];
        if (trial.number == 0) throw std::bad_alloc();
        if (trial.number == 1) throw std::runtime_error("a crash");
        trial.report({{"loss", NAN}});
      },
      {.config = lr_space(),
       .metric = "loss",
       .mode = "min",
       .num_samples = 3,
       .max_concurrent_trials = 1,
       .max_failures = 0,
       .failures = {{Failure::kOutOfMemory, {.retries = 2, .backoff_s = 0}}},
       .nan_is_failure = true});
  EXPECT_EQ(calls[0], 3);
  EXPECT_EQ(calls[1], 1);
  EXPECT_EQ(result.trials[2].failure, Failure::kNan);
}

TEST(Run, OnlyTheNewestCheckpointsStayOnTheDisk) {
  const test::Folder folder;
  const auto files = [&](int64_t trial) {
    std::vector<std::string> names;
    for (int64_t step = 1; step <= 4; ++step) {
      const auto path = folder.path() / concat("t", trial) / concat("c", step);
      if (std::filesystem::exists(path)) names.push_back(path.filename());
    }
    return join(names, " ");
  };
  run(
      [&](TrialHandle& trial) {
        for (int64_t step = 1; step <= 4; ++step) {
          const auto path = folder.path() / concat("t", trial.number) / concat("c", step);
          std::filesystem::create_directories(path);  // a folder
          trial.report({{"loss", 1}}, {.checkpoint = path});
          EXPECT_EQ(files(trial.number), step == 1 ? "c1" : concat('c', step - 1, " c", step));
        }
      },
      {.config = lr_space(),
       .metric = "loss",
       .mode = "min",
       .num_samples = 2,
       .max_concurrent_trials = 1,
       .storage = folder.path() / "study.db",
       .keep_checkpoints = 2});
  EXPECT_EQ(files(0), "c3 c4");
  EXPECT_EQ(files(1), "c3 c4");
}

TEST(Run, CtrlCEndsTheRunAndLeavesWhatCanGoOn) {
  const RunResult result = run(
      [](TrialHandle& trial) {
        ::raise(SIGINT);
        while (trial.report({{"loss", 1}}) == Action::kContinue) {
        }
      },
      {.config = lr_space(),
       .metric = "loss",
       .mode = "min",
       .num_samples = 5,
       .max_concurrent_trials = 1,
       .stop_on_signals = true});
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.stopped, "SIGINT");
  EXPECT_EQ(result.trials.size(), 1u);
}

}  // namespace
}  // namespace muster::tune
