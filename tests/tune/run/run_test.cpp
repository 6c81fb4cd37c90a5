// The C++ API: trials as functions on threads.
#include "muster/tune/run/run.h"

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
#include "muster/tune/schedule/asha/asha_options.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/short_files.h"
#include "tests/tune/run/trained.h"

namespace muster::tune {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

TEST(Run, FindsTheBestConfiguration) {
  const RunResult result = run(&train,
                               {.config = lr_space(),
                                .metric = "loss",
                                .mode = "min",
                                .num_samples = 50,
                                .max_concurrent_trials = 1});
  ASSERT_EQ(result.trials.size(), 50u);
  for (const Trial& trial : result.trials) {
    EXPECT_EQ(trial.state, TrialState::kComplete);
    EXPECT_GE(trial.last_metric, result.best_trial().last_metric);
  }
  EXPECT_NEAR(std::log10(result.best_config()["lr"].as_double()), -2, 0.3);
}

TEST(Run, AshaStopsTheWorst) {
  const RunResult result =
      run(&train,
          {.config = lr_space(),
           .metric = "loss",
           .mode = "min",
           .num_samples = 40,
           .scheduler = asha({.max_t = 8, .grace_period = 1, .reduction_factor = 2})});
  int64_t reports = 0, pruned = 0;
  for (const Trial& trial : result.trials) {
    reports += trial.reports;
    pruned += trial.state == TrialState::kPruned ? 1 : 0;
  }
  EXPECT_GT(pruned, 10);
  EXPECT_LT(reports, 40 * 8 * 2 / 3);
}

TEST(Run, AnExceptionFailsTheTrialAndTheStudyGoesOn) {
  const auto result = run(
      [](TrialHandle& trial) {
        if (trial.number == 1) throw std::runtime_error("diverged");
        if (trial.number == 2) throw std::runtime_error("CUDA out of memory. Tried to allocate");
        trial.report({{"loss", 1}});
      },
      {.config = lr_space(), .metric = "loss", .mode = "min", .num_samples = 4});
  EXPECT_EQ(result.trials[1].failure, Failure::kCrash);
  EXPECT_EQ(result.trials[1].reason, "diverged");
  EXPECT_EQ(result.trials[2].failure, Failure::kOutOfMemory);
  EXPECT_EQ(result.trials[3].state, TrialState::kComplete);
}

TEST(Run, GoesOnWithAStoredStudyAndEndsAsAnUnbrokenOne) {
  const test::Folder folder;
  const RunConfig whole{.config = lr_space(),
                        .metric = "loss",
                        .mode = "min",
                        .num_samples = 12,
                        .scheduler = asha({.max_t = 8, .grace_period = 1, .reduction_factor = 2}),
                        .max_concurrent_trials = 1};
  const RunResult unbroken = run(&train, whole);
  RunConfig broken = whole;
  broken.storage = folder.path() / "study.db";
  std::atomic<int64_t> reports = 0;
  for (int64_t limit = 5; limit < 500; limit += 9) {
    std::stop_source stop;
    broken.stop_token = stop.get_token();
    const RunResult part = run(
        [&](TrialHandle& trial) {
          const double distance = std::abs(std::log10(trial.config["lr"].as_double()) + 2);
          for (int64_t step = 1; step <= 8; ++step) {
            if (++reports >= limit) stop.request_stop();
            if (trial.report({{"loss", distance + 1.0 / static_cast<double>(step)}}) !=
                Action::kContinue)
              return;
          }
        },
        broken);
    if (!part.interrupted) {
      ASSERT_EQ(part.trials.size(), unbroken.trials.size());
      for (size_t i = 0; i < part.trials.size(); ++i) {
        EXPECT_EQ(part.trials[i].values, unbroken.trials[i].values);
        EXPECT_EQ(part.trials[i].state, unbroken.trials[i].state);
        EXPECT_EQ(part.trials[i].reports, unbroken.trials[i].reports);
        EXPECT_EQ(part.trials[i].last_metric, unbroken.trials[i].last_metric);
      }
      return;
    }
  }
  FAIL() << "the study never ended";
}

TEST(Run, ManyThreadsLoseNoReport) {
  const test::Folder folder;
  const RunResult result = run(
      [](TrialHandle& trial) {
        for (int i = 0; i < 20; ++i) trial.report({{"loss", i}});
      },
      {.config = lr_space(),
       .metric = "loss",
       .mode = "min",
       .num_samples = 200,
       .resources_per_trial = {.cpu = 0.1},
       .max_concurrent_trials = 8,
       .storage = folder.path() / "study.db"});
  const auto events = read_events(folder.path() / "study.db", "study");
  int64_t reported = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].id, static_cast<int64_t>(i) + 1);
    reported += std::holds_alternative<Reported>(events[i].what) ? 1 : 0;
  }
  EXPECT_EQ(reported, 200 * 20);
  for (const Trial& trial : result.trials) EXPECT_EQ(trial.reports, 20);
}

/// A trial that would report for ever ends when the study does, and goes on when it is resumed; one
/// that had returned by itself is complete.
TEST(Run, AStopTokenIsHeardByReportsWhileAllSlotsAreBusy) {
  std::stop_source stop;
  int64_t reports = 0;
  const RunResult result = run(
      [&](TrialHandle& trial) {
        if (trial.number == 0) {
          trial.report({{"loss", 1}});
          return;
        }
        while (trial.report({{"loss", 1}}) == Action::kContinue) {
          if (++reports == 3) stop.request_stop();
        }
      },
      {.config = lr_space(),
       .metric = "loss",
       .mode = "min",
       .num_samples = -1,
       .max_concurrent_trials = 1,
       .stop_token = stop.get_token()});
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.stopped, "asked to stop");
  ASSERT_EQ(result.trials.size(), 2u);
  EXPECT_EQ(result.trials[0].state, TrialState::kComplete);
  EXPECT_EQ(result.trials[1].state, TrialState::kPending);
  EXPECT_EQ(result.trials[1].failure, Failure::kInterrupted);
}

TEST(Run, ATimeBudgetEndsATrialThatOnlyReportsAndHoldsOverAllRuns) {
  const test::Folder folder;
  RunConfig config{.config = lr_space(),
                   .metric = "loss",
                   .mode = "min",
                   .num_samples = 1,
                   .time_budget_s = 0.1};
  const auto for_ever = [](TrialHandle& trial) {
    while (trial.report({{"loss", 1}}) == Action::kContinue) {
    }
  };
  RunResult first;
  const auto has_begun = [&] { return !first.trials.empty() && first.trials[0].attempt == 1; };
  while (!has_begun() && config.time_budget_s < 60) {  // on a busy machine that takes a while
    config.time_budget_s *= 2;
    config.storage = folder.path() / concat("study-", 10 * config.time_budget_s, ".db");
    first = run(for_ever, config);
  }
  EXPECT_TRUE(first.interrupted);
  EXPECT_THAT(first.stopped, HasSubstr("time budget"));
  ASSERT_EQ(first.trials.size(), 1u);
  EXPECT_EQ(first.trials[0].state, TrialState::kPending);
  const RunResult again = run(for_ever, config);
  EXPECT_TRUE(again.interrupted);
  ASSERT_EQ(again.trials.size(), 1u);
  EXPECT_EQ(again.trials[0].attempt, 1);  // the budget was used up
  RunConfig more = config;
  more.time_budget_s = 0;
  EXPECT_FALSE(run(
                   [](TrialHandle& trial) {
                     trial.report({{"loss", 1}}, {.step = int64_t{1} << 40});
                   },
                   more)
                   .interrupted);
}

TEST(Run, AFunctionThatNeverGetsToAReportDoesNotBurnAnEndlessStudy) {
  const auto broken = [](TrialHandle&) { throw std::runtime_error("no such file: data.csv"); };
  const RunConfig config{.config = lr_space(), .metric = "loss", .mode = "min", .num_samples = -1};
  const RunResult result = run(broken, config);
  EXPECT_GE(result.trials.size(), 10u);
  EXPECT_FALSE(result.interrupted);
  EXPECT_THAT(result.stopped, HasSubstr("no such file: data.csv"));
  RunConfig fast = config;
  fast.fail_fast = true;
  fast.max_concurrent_trials = 1;
  EXPECT_EQ(run(broken, fast).trials.size(), 1u);
}

TEST(Run, AnObserverSeesTheTrialsToTheEndAndWhatItThrowsComesOut) {
  size_t least = 1000;
  const RunConfig config{.config = lr_space(),
                         .metric = "loss",
                         .mode = "min",
                         .num_samples = 6,
                         .on_events = [&](const StudyCore& core, std::span<const Event> events) {
                           EXPECT_FALSE(events.empty());
                           least = std::min(least, core.trials().size());
                         }};
  EXPECT_EQ(run(&train, config).trials.size(), 6u);
  EXPECT_GE(least, 1u);
  RunConfig throws = config;
  throws.on_events = [](const StudyCore&, std::span<const Event>) {
    throw std::runtime_error("the disk of the table is full");
  };
  EXPECT_THROW(run(&train, throws), std::runtime_error);
}

TEST(Run, AReportThatCannotBeStoredEndsTheRunAndFailsNoTrial) {
  const test::Folder folder;
  RunConfig config{.config = lr_space(),
                   .metric = "loss",
                   .mode = "min",
                   .storage = folder.path() / "a.db",
                   .storage_patience_s = 0.01};
  std::optional<test::ShortFiles> full;
  const auto fills_the_disk = [&](TrialHandle& trial) {
    full.emplace(1);
    trial.report({{"loss", 1}});
  };
  EXPECT_THAT(refusal_of([&] { run(fills_the_disk, config); }, ErrorKind::kEnvironment),
              HasSubstr("cannot write"));
  full.reset();
  const RunResult result = run(&train, config);
  ASSERT_EQ(result.trials.size(), 1u);
  EXPECT_EQ(result.trials[0].state, TrialState::kComplete);
  EXPECT_EQ(result.trials[0].attempt, 2);
}

TEST(Run, RefusesWhatMakesNoSenseBeforeAnythingRuns) {
  bool ran = false;
  const auto never = [&](TrialHandle&) { ran = true; };
  EXPECT_THAT(refusal_of([&] { run(never, {.config = lr_space()}); }), HasSubstr("metric"));
  EXPECT_THAT(
      refusal_of([&] { run(never, {.config = lr_space(), .metric = "a", .mode = "best"}); }),
      HasSubstr("best"));
  EXPECT_THAT(refusal_of([&] {
                run(never,
                    {.config = lr_space(), .metric = "a", .mode = "max", .scheduler = "asah"});
              }),
              HasSubstr("did you mean \"asha\""));
  EXPECT_THAT(refusal_of([&] { run(never, {.config = lr_space(), .metric = "loss"}); }),
              HasSubstr(".mode = \"min\" for a loss"));
  EXPECT_THAT(refusal_of([&] {
                run(never,
                    {.config = lr_space(),
                     .metric = "a",
                     .mode = "max",
                     .resources_per_trial = {.gpu = 9}});
              }),
              HasSubstr("gpu"));
  EXPECT_THAT(refusal_of([&] {
                run(never,
                    {.config = lr_space(), .metric = "a", .mode = "max", .max_failures = -2});
              }),
              HasSubstr("max_failures"));
  EXPECT_FALSE(ran);
}

TEST(Run, AnUnknownParameterGetsTheNearestName) {
  EXPECT_THAT(run([](TrialHandle& trial) { trial.config["learning"]; },
                  {.config = lr_space(), .metric = "loss", .mode = "min"})
                  .trials[0]
                  .reason,
              HasSubstr("unknown parameter \"learning\""));
}

// ---- The caller's own searcher and scheduler ----

}  // namespace
}  // namespace muster::tune
