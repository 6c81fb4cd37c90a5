// A study with its storage: what is answered is stored, whoever else calls and whatever fails.
#include "muster/tune/run/study.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>

#include "muster/base/error.h"
#include "muster/tune/storage/sqlite.h"

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
      for (int64_t t = 1; t <= kReports; ++t) {
        try {
          study.apply(
              [&](StudyCore& core, double now_s) { return core.report(trial, loss(1), now_s); });
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
          ++refused;
        }
      }
    });
  }
  while (refused < kThreads * kReports / 4) std::this_thread::yield();
  EXPECT_THAT(reports(), IsEmpty());  // nobody was told of anything that is not there
  full.reset();
  for (std::thread& thread : threads) thread.join();
  study.flush();
  EXPECT_THAT(reports(), SizeIs(kThreads));
  for (const auto& [trial, count] : reports()) EXPECT_EQ(count, kReports) << "trial " << trial;
  StudyCore again(spec(kThreads));
  for (const Event& event : stored()) again.replay(event);
}

TEST_F(StudyWithFile, ObserversSeeWhatIsStoredOnceAndInItsOrderAlsoAfterAFailure) {
  std::vector<int64_t> seen;
  Study study(spec(2), &wall_clock_s, [&](const StudyCore&, std::span<const Event> events) {
    for (const Event& event : events) seen.push_back(event.id);
  });
  study.apply([](StudyCore& core, double now_s) { start(core, now_s); });
  {
    const test::ShortFiles full(1);
    EXPECT_THROW(study.apply([](StudyCore& core, double now_s) { start(core, now_s); }), Error);
    EXPECT_THROW(study.flush(), Error);
  }
  const size_t before = seen.size();
  study.apply([](StudyCore& core, double now_s) { core.report(0, loss(1), now_s); });
  EXPECT_GT(seen.size(), before + 1);  // what failed, and the report
  EXPECT_EQ(seen.size(), stored().size());
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], int64_t(i) + 1);
}

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

}  // namespace
}  // namespace muster::tune
