// A study with its storage: what is answered is stored, whoever else calls and whatever fails.
#include "muster/tune/run/study.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include <gmock/gmock.h>

#include "muster/base/error.h"
#include "muster/tune/storage/sqlite.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/short_files.h"
#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {
namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StudyWithFile : public ::testing::Test {
 protected:
  StudySpec spec(int64_t samples, const std::string& searcher = "random") {
    StudySpec spec = spec_with(samples);
    spec.searcher = searcher;
    spec.storage = folder_.path() / "test.db";
    return spec;
  }
  std::vector<Event> stored() { return read_events(folder_.path() / "test.db", "test"); }
  /// Reports of each trial in the log, which must rise by one.
  std::map<int64_t, int64_t> reports() {
    std::map<int64_t, int64_t> count;
    for (const Event& event : stored()) {
      if (const auto* reported = std::get_if<Reported>(&event.what)) {
        EXPECT_EQ(reported->t, ++count[event.trial]) << "trial " << event.trial;
      }
    }
    return count;
  }

  test::Folder folder_;
};

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
  const auto finish = [](Study& study, int64_t number) {
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
        finish(other, next.trial);
        ++asked;
      }
    });
  }
  int64_t own = 0;
  while (asked < 30) {
    finish(tuner, tuner.apply([](StudyCore& core, double now_s) { return start(core, now_s); }));
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

// ---- Trials by Optuna ----

/// A trial as Optuna 5 writes one (see tests/parity/test_tune_storage.py for the real one).
void add_optuna_trial(const std::filesystem::path& file,
                      int64_t number,
                      double lr,
                      double value,
                      const std::string& param = "lr") {
  Database database(file, Database::Access::kWrite);
  const auto run = [&](const std::string& sql) { database.run(sql.c_str()); };
  run("INSERT INTO trials (number, study_id, state, datetime_start, datetime_complete) SELECT " +
      std::to_string(number) +
      ", study_id, 'COMPLETE', '2026-01-01 00:00:00', '2026-01-01 00:00:01' FROM studies");
  const std::string id = std::to_string(database.last_rowid());
  run("INSERT INTO trial_values (trial_id, objective, value, value_type) VALUES (" + id + ", 0, " +
      std::to_string(value) + ", 'FINITE')");
  run("INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json) VALUES (" +
      id + ", '" + param + "', " + std::to_string(lr) +
      ", '{\"name\": \"FloatDistribution\", \"attributes\": {\"step\": null, \"low\": 0.0001, "
      "\"high\": 0.1, \"log\": true}}')");
  run("INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json) VALUES (" +
      id +
      ", 'l1', 3, '{\"name\": \"CategoricalDistribution\", \"attributes\": {\"choices\": [4, 8, "
      "16, "
      "32, 64, 128, 256]}}')");
}

TEST_F(StudyWithFile, ASearcherThatLearnsIsToldOfTrialsByOptunaOnceAndTheLogReplays) {
  const StudySpec mine = spec(30, "random_then_grid:startup=1,top=1");
  { const Study study(mine); }
  add_optuna_trial(mine.storage, 0, 0.0123, 0.001);
  add_optuna_trial(mine.storage, 1, 0.0123, 0.001, "another_parameter");  // not of this space
  for (int round = 0; round < 3; ++round) {
    Study study(mine);
    for (int i = 0; i < 4; ++i) {
      study.apply([](StudyCore& core, double now_s) {
        const int64_t number = start(core, now_s);
        core.report(number, loss(1), now_s);
        core.ended(number, Failure::kNone, "", now_s);
      });
    }
  }
  const auto events = stored();
  std::vector<OutsideTrial> outside;
  std::vector<std::string> reasons;
  for (const Event& event : events) {
    if (const auto* told = std::get_if<OutsideTrial>(&event.what)) outside.push_back(*told);
    if (const auto* added = std::get_if<TrialAdded>(&event.what)) reasons.push_back(added->reason);
  }
  ASSERT_THAT(outside, SizeIs(1));
  EXPECT_EQ(outside[0].point, (Point{0.0123, 5}));  // 32 is the fourth of 2 ** randint(2, 9)
  EXPECT_EQ(outside[0].metric, 0.001);
  ASSERT_THAT(reasons, SizeIs(12));
  reasons.erase(reasons.begin());  // the random start
  EXPECT_THAT(reasons, Each(HasSubstr("around Optuna's trial 0")));
  StudyCore again(mine);
  for (const Event& event : events) again.replay(event);
}

TEST_F(StudyWithFile, ATrialThatOptunaFinishesWhileATunerRunsIsToldOfAtOnce) {
  const StudySpec mine = spec(30, "random_then_grid:startup=1,top=1");
  Study study(mine);
  const auto whole_trial = [](StudyCore& core, double now_s) {
    const int64_t number = start(core, now_s);
    core.report(number, loss(1), now_s);
    core.ended(number, Failure::kNone, "", now_s);
    return number;
  };
  study.apply(whole_trial);
  add_optuna_trial(mine.storage, 1, 0.0123, 0.001);
  {
    Database database(mine.storage, Database::Access::kWrite);  // one that Optuna runs
    database.run("UPDATE trials SET state = 'RUNNING' WHERE number = 1");
  }
  study.apply(whole_trial);
  const auto told = [&] {
    return std::ranges::count_if(stored(), [](const Event& event) {
      return std::holds_alternative<OutsideTrial>(event.what);
    });
  };
  EXPECT_EQ(told(), 0);
  {
    Database database(mine.storage, Database::Access::kWrite);
    database.run("UPDATE trials SET state = 'COMPLETE' WHERE number = 1");
  }
  {
    const test::ShortFiles full(1);
    EXPECT_THROW(study.apply(whole_trial), Error);  // told, and not stored
  }
  EXPECT_EQ(study.apply(whole_trial), 2);
  EXPECT_EQ(told(), 1);
  study.apply(whole_trial);
  EXPECT_EQ(told(), 1);
  std::vector<std::string> kinds;  // the searcher knew of it before it was asked again
  for (const Event& event : stored()) {
    if (event.trial == 2 && kinds.empty()) break;
    if (std::holds_alternative<OutsideTrial>(event.what)) kinds.emplace_back(kind_of(event));
  }
  EXPECT_THAT(kinds, SizeIs(1));
  StudyCore again(mine);
  for (const Event& event : stored()) again.replay(event);
}

/// As Optuna 5's enqueue_trial writes it.
void enqueue(const std::filesystem::path& file, int64_t number, const std::string& fixed_params) {
  Database database(file, Database::Access::kWrite);
  database
      .prepare(
          "INSERT INTO trials (number, study_id, state) SELECT ?, study_id, 'WAITING' "
          "FROM studies")
      .bind(1, number)
      .run();
  const int64_t id = database.last_rowid();
  database
      .prepare(
          "INSERT INTO trial_system_attributes (trial_id, \"key\", value_json) "
          "VALUES (?, 'fixed_params', ?)")
      .bind(1, id)
      .bind(2, fixed_params)
      .run();
}

TEST_F(StudyWithFile, ATrialThatOptunaEnqueuedIsRunNextBesideATunerThatRuns) {
  const StudySpec mine = spec(3);
  Study study(mine);
  const auto next = [&] {
    return study.apply([](StudyCore& core, double now_s) { return start(core, now_s); });
  };
  EXPECT_EQ(next(), 0);
  enqueue(mine.storage, 1, R"({"lr": 0.0123, "l1": 32})");
  enqueue(mine.storage, 2, R"({"l1": 5})");  // not in the space
  enqueue(mine.storage, 3, R"({"l1": 8})");
  EXPECT_EQ(next(), 1);
  EXPECT_EQ(next(), 2);
  study.look([](const StudyCore& core) {
    EXPECT_EQ(trial(core, 1).values, (Values{0.0123, 32}));
    EXPECT_EQ(trial(core, 2).values[1], Value(8));
    EXPECT_EQ(core.planned_trials(), 5);
  });
  EXPECT_EQ(next(), 3);
  Database database(mine.storage, Database::Access::kRead);
  Statement rows = database.prepare(
      "SELECT t.number, t.state, m.number FROM trials AS t LEFT JOIN muster_trials AS m "
      "ON m.trial_id = t.trial_id ORDER BY t.trial_id");
  std::vector<std::string> found;
  while (rows.step())
    found.push_back(std::string(rows.text(0)) + ' ' + std::string(rows.text(1)) + ' ' +
                    std::string(rows.text(2)));
  EXPECT_THAT(found,
              ::testing::ElementsAre(
                  "0 RUNNING 0", "1 RUNNING 1", "2 WAITING ", "3 RUNNING 2", "4 RUNNING 3"));
  std::vector<std::string> said;
  for (const Event& event : stored()) {
    if (const auto* note = std::get_if<TunerNote>(&event.what)) said.push_back(note->text);
  }
  for (int i = 0; i < 3; ++i) {  // processes that know nothing of each other
    Study other(mine, &wall_clock_s, {}, {.tuner = false});
    other.apply([](StudyCore& core, double now_s) { core.report(0, loss(1), now_s); });
  }
  said.clear();
  for (const Event& event : stored()) {
    if (const auto* note = std::get_if<TunerNote>(&event.what)) said.push_back(note->text);
  }
  EXPECT_THAT(said, ::testing::Contains(HasSubstr("Optuna's trial 2 waits in vain")).Times(1));
  StudyCore again(mine);
  for (const Event& event : stored()) again.replay(event);
}

}  // namespace
}  // namespace muster::tune
