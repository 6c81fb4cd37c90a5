// A study with its storage: what is answered is stored, whoever else calls and whatever fails.
#include "muster/tune/run/study.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>

#include "muster/base/error.h"
#include "muster/tune/storage/sqlite.h"

#include "tests/support/error_of.h"
#include "tests/support/short_files.h"
#include "tests/tune/run/study_with_file.h"

namespace muster::tune {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(StudyWithFile, ThreadsThatReportWhileTheDiskIsFullAreToldAndNothingIsLostOrDoubled) {
  constexpr int64_t kThreads = 8, kReports = 40;
  Study study(spec(kThreads));
  for (int64_t i = 0; i < kThreads; ++i)
    study.apply([](StudyCore& core, double now_s) { start(core, now_s); });
  std::optional<test::ShortFiles> full(1);
  std::atomic<int64_t> refused = 0;
  std::vector<std::thread> threads;
  for (int64_t trial = 0; trial < kThreads; ++trial) {
    threads.emplace_back([&, trial] {
      for (int64_t t = 1; t <= kReports;) {
        try {
          study.apply(
              [&](StudyCore& core, double now_s) { return core.report(trial, loss(1, t), now_s); });
          ++t;
        } catch (const Error& error) {  // it has not happened: once more
          EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
          ++refused;
        }
      }
    });
  }
  while (refused < kThreads * 10) std::this_thread::yield();
  EXPECT_THAT(reports(), IsEmpty());  // nobody was told of anything that is not there
  full.reset();
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(reports(), SizeIs(kThreads));
  for (const auto& [trial, count] : reports()) EXPECT_EQ(count, kReports) << "trial " << trial;
  StudyCore again(spec(kThreads));
  for (const Event& event : stored()) again.replay(event);
}

TEST_F(StudyWithFile, ACallThatIsMadeAgainWhileTheDiskIsFullCountsOnce) {
  StudySpec mine = spec(20);
  mine.give_up_after = 3;
  mine.failures.fill({.retries = 1, .backoff_s = 0});
  Study study(mine);
  const auto begin = [](StudyCore& core, double now_s) { start(core, now_s); };
  const auto fail = [](StudyCore& core, double now_s) {
    core.ended(0, Failure::kCrash, "boom", now_s);
  };
  const auto fails_on_a_full_disk = [&](auto call) {
    const test::ShortFiles full(1);
    for (int i = 0; i < 10; ++i) EXPECT_THROW(study.apply(call), Error);
  };
  study.apply(begin);
  study.apply(fail);
  study.apply(begin);
  fails_on_a_full_disk(fail);
  study.apply(fail);
  study.look([](const StudyCore& core) {
    EXPECT_EQ(trial(core, 0).state, TrialState::kFailed);
    EXPECT_FALSE(core.is_stopped()) << core.stop_reason();
  });
  const auto stop = [](StudyCore& core, double now_s) { core.stop("enough", now_s); };
  fails_on_a_full_disk(stop);
  study.apply(begin);  // what was not stored has not happened
  study.apply(stop);
  int64_t stops = 0;
  for (const Event& event : stored()) {
    const auto* note = std::get_if<TunerNote>(&event.what);
    stops += note != nullptr && note->text == "stopping: enough";
  }
  EXPECT_EQ(stops, 1);
}

TEST_F(StudyWithFile, AnAttemptThatRepeatsItselfKeepsItsPlaceWhenTheDiskWasFull) {
  StudySpec mine = spec(1);
  mine.failures.fill({.retries = 1, .backoff_s = 0});
  Study study(mine);
  const auto begin = [](StudyCore& core, double now_s) { start(core, now_s); };
  const auto report = [](StudyCore& core, double now_s) { core.report(0, loss(1), now_s); };
  const auto save = [](StudyCore& core, double now_s) {
    core.report(0, loss(1, {}, "checkpoint-3"), now_s);
  };
  study.apply(begin);
  for (int i = 0; i < 4; ++i) study.apply(report);
  study.apply([](StudyCore& core, double now_s) { core.ended(0, Failure::kCrash, "boom", now_s); });
  study.apply(begin);
  study.apply(report);
  study.apply(report);
  {
    const test::ShortFiles full(1);
    for (int i = 0; i < 3; ++i) EXPECT_THROW(study.apply(save), Error);
  }
  study.apply(save);
  study.apply(report);  // the fourth, known
  study.apply(report);
  study.look([](const StudyCore& core) {
    EXPECT_EQ(trial(core, 0).reports, 5);
    EXPECT_EQ(trial(core, 0).last_t, 5);
    EXPECT_EQ(trial(core, 0).checkpoint, "checkpoint-3");
  });
}

TEST_F(StudyWithFile, ObserversSeeWhatIsStoredOnceAndInItsOrderAlsoAfterAFailure) {
  std::vector<int64_t> seen;
  Study study(spec(3), &wall_clock_s, [&](const StudyCore&, std::span<const Event> events) {
    for (const Event& event : events) seen.push_back(event.id);
  });
  const auto begin = [](StudyCore& core, double now_s) { start(core, now_s); };
  study.apply(begin);
  {
    const test::ShortFiles full(1);
    EXPECT_THROW(study.apply(begin), Error);
    EXPECT_THROW(study.apply(begin), Error);
  }
  study.look([](const StudyCore& core) { EXPECT_EQ(core.trials().size(), 2u); });
  {
    Study other(spec(3), &wall_clock_s, {}, {.tuner = false});
    other.apply([](StudyCore& core, double now_s) { core.next(now_s, /*asked=*/true); });
  }
  study.apply([](StudyCore& core, double now_s) { core.report(0, loss(1), now_s); });
  study.look([](const StudyCore& core) { EXPECT_TRUE(core.is_asked(1)); });
  EXPECT_EQ(seen.size(), stored().size());
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], int64_t(i) + 1);
}

TEST_F(StudyWithFile, AnObserverThatThrowsLosesNothingAndIsNotCalledAgain) {
  int calls = 0;
  Study study(spec(2), &wall_clock_s, [&](const StudyCore&, std::span<const Event>) {
    ++calls;
    throw environment_error({.refused = "cannot write ray/result.json"});
  });
  study.apply([](StudyCore& core, double now_s) { start(core, now_s); });
  study.apply([](StudyCore& core, double now_s) { core.report(0, loss(1), now_s); });
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(reports(), SizeIs(1));
  EXPECT_THROW(study.check_observer(), Error);
}

// ---- Several processes ----

/// A tuner and three others by turns, each with its own core and connection: after any interleaving
/// all know the same, and the log replays.
TEST_F(StudyWithFile, ATunerAndOthersWhoAskShareOneLog) {
  StudySpec mine = spec(200);
  mine.scheduler = "asha:max_t=4,grace_period=1,reduction_factor=2";
  Study tuner(mine);
  std::vector<std::thread> threads;
  std::atomic<int64_t> asked = 0;
  const auto run_trial = [](Study& study, int64_t number) {
    for (int64_t t = 1; t <= 4; ++t) {
      const Decision decision = study.apply([&](StudyCore& core, double now_s) {
        return core.report(number, loss(1.0 / double(number + t)), now_s);
      });
      if (decision.action != Action::kContinue) break;
    }
    study.apply(
        [&](StudyCore& core, double now_s) { core.ended(number, Failure::kNone, "", now_s); });
  };
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        Study other(mine, &wall_clock_s, {}, {.tuner = false});  // as a process of its own
        const auto next = other.apply(
            [](StudyCore& core, double now_s) { return core.next(now_s, /*asked=*/true); });
        ASSERT_EQ(next.kind, StudyCore::Next::kStart);
        run_trial(other, next.trial);
        ++asked;
      }
    });
  }
  int64_t own = 0;
  while (asked < 30) {
    run_trial(tuner, tuner.apply([](StudyCore& core, double now_s) { return start(core, now_s); }));
    if (++own == 100) break;
  }
  for (std::thread& thread : threads) thread.join();
  tuner.catch_up();
  const auto known = tuner.look([](const StudyCore& core) { return core.trials().size(); });
  EXPECT_EQ(known, size_t(30 + own));
  StudyCore again(mine);
  for (const Event& event : stored()) again.replay(event);
  EXPECT_EQ(again.trials().size(), known);
  for (const Trial& trial : again.trials()) EXPECT_TRUE(is_over(trial.state));
}

TEST_F(StudyWithFile, WhoAsksTakesBackWhatADeadTunerLeftAndNotWhatALivingOneRuns) {
  std::optional<Study> tuner(spec(1));
  tuner->apply([](StudyCore& core, double now_s) { start(core, now_s); });
  const auto ask = [&] {
    Study other(spec(1), &wall_clock_s, {}, {.tuner = false});
    return other.apply(
        [](StudyCore& core, double now_s) { return core.next(now_s, /*asked=*/true).kind; });
  };
  EXPECT_EQ(ask(), StudyCore::Next::kWait);
  tuner.reset();
  EXPECT_EQ(ask(), StudyCore::Next::kStart);
  EXPECT_EQ(ask(), StudyCore::Next::kHandedOut);
}

TEST_F(StudyWithFile, ACallWaitsForALockNoLongerThanItIsToldTo) {
  Study study(spec(1), &wall_clock_s, {}, {.lock_patience_s = 0.02});
  Database other(folder_.path() / "test.db", Database::Access::kWrite);
  other.run("BEGIN IMMEDIATE");
  const auto begin = [](StudyCore& core, double now_s) { start(core, now_s); };
  EXPECT_THROW(study.apply(begin), Error);
  other.run("COMMIT");
  study.apply(begin);
  study.look([](const StudyCore& core) { EXPECT_EQ(core.trials().size(), 1u); });
}

TEST_F(StudyWithFile, OpeningWaitsForALockAndSaysSoOnce) {
  { const Study made(spec(1)); }
  for (const bool tuner : {true, false}) {
    Database other(folder_.path() / "test.db", Database::Access::kWrite);
    other.run("BEGIN IMMEDIATE");
    std::vector<std::string> said;
    Study study(spec(1),
                &wall_clock_s,
                {},
                {.tuner = tuner, .lock_patience_s = 0.02, .note = [&](const std::string& line) {
                   said.push_back(line);
                   other.run("COMMIT");
                 }});
    EXPECT_THAT(said, ::testing::ElementsAre(HasSubstr("it is locked by another program")));
  }
  StudySpec hasty = spec(1);
  hasty.storage_patience_s = 0;
  Database other(folder_.path() / "test.db", Database::Access::kWrite);
  other.run("BEGIN IMMEDIATE");
  EXPECT_THROW(Study(hasty, &wall_clock_s, {}, {.lock_patience_s = 0.02}), StorageLocked);
}

// ---- A study that goes away ----

TEST_F(StudyWithFile, OneThatIsDeletedWhileItIsOpenSaysSoAndWritesNothingIntoItsSuccessor) {
  const StudySpec mine = spec(5);
  const auto asked = [](StudyCore& core, double now_s) { core.next(now_s, /*asked=*/true); };
  Study other(mine, &wall_clock_s, {}, {.tuner = false});
  other.apply(asked);
  delete_study(mine.storage, mine.name);
  EXPECT_THAT(test::refusal_of([&] { other.apply(asked); }), HasSubstr("study \"test\" is gone"));
  Study next(mine, &wall_clock_s, {}, {.tuner = false});  // of the same name, in the same row
  next.apply(asked);
  const auto report = [](StudyCore& core, double now_s) { core.report(0, loss(1), now_s); };
  EXPECT_THAT(test::refusal_of([&] { other.apply(report); }), HasSubstr("is gone"));
  EXPECT_THAT(test::refusal_of([&] { other.catch_up(); }), HasSubstr("is gone"));
  next.apply(report);
  EXPECT_THAT(reports(), SizeIs(1));
  EXPECT_THAT(stored(), SizeIs(3));
}

TEST_F(StudyWithFile, DeletingMovesTheFolderOfItsTrialsOutOfTheWayOfTheNextOfItsName) {
  const StudySpec mine = spec(1);
  const auto trials = folder_.path() / "trials" / "test";
  std::filesystem::create_directories(trials / "trial-0");
  EXPECT_THAT(test::refusal_of([&] {
                const Study running(mine);
                delete_study(mine.storage, mine.name, trials);
              }),
              HasSubstr("is being run already"));
  EXPECT_TRUE(std::filesystem::exists(trials));
  const auto aside = delete_study(mine.storage, mine.name, trials);
  EXPECT_FALSE(std::filesystem::exists(trials));
  EXPECT_TRUE(std::filesystem::exists(aside / "test" / "trial-0"));
  { const Study again(mine); }
  EXPECT_EQ(delete_study(mine.storage, mine.name, trials), "");
}

}  // namespace
}  // namespace muster::tune
