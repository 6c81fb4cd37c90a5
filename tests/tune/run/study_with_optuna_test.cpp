// A study whose file Optuna writes to as well: its finished trials, and those that it enqueues.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <sqlite3.h>

#include "muster/base/error.h"
#include "muster/tune/storage/sqlite.h"
#include "muster/tune/views/history.h"

#include "tests/support/error_of.h"
#include "tests/support/short_files.h"
#include "tests/tune/run/study_with_file.h"

namespace muster::tune {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

using StudyWithOptuna = StudyWithFile;

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

std::vector<std::string>
    statements_of_all;  // of connections that were opened since it was asked for

int note_statement(unsigned /*kind*/, void* /*context*/, void* statement, void* text) {
  // What begins so is a trigger's.
  if (!std::string_view(static_cast<const char*>(text)).starts_with("--"))
    statements_of_all.emplace_back(sqlite3_sql(static_cast<sqlite3_stmt*>(statement)));
  return 0;
}

int watch_connection(sqlite3* database, const char** /*error*/, const void* /*routines*/) {
  return sqlite3_trace_v2(database, SQLITE_TRACE_STMT, &note_statement, nullptr);
}

/// The statements that `call` runs on connections of its own.
template <class Call>
std::vector<std::string> statements_in(Call&& call) {
  const auto entry = reinterpret_cast<void (*)()>(&watch_connection);
  statements_of_all.clear();
  EXPECT_EQ(sqlite3_auto_extension(entry), SQLITE_OK);
  call();
  sqlite3_cancel_auto_extension(entry);
  return std::exchange(statements_of_all, {});
}

TEST_F(StudyWithOptuna, OpeningWalksOptunasTrialsOnce) {
  const StudySpec mine = spec(30);
  {
    Study study(mine);
    study.apply([](StudyCore& core, double now_s) { core.next(now_s, /*asked=*/true); });
  }
  for (int64_t number = 1; number < 6; ++number) add_optuna_trial(mine.storage, number, 0.01, 0.5);
  const auto statements = statements_in([&] {
    Study study(mine, &wall_clock_s, {}, {.tuner = false});
    study.look([](const StudyCore& core) { EXPECT_EQ(core.trials().size(), 1U); });
  });
  const auto walks = std::ranges::count_if(statements, [](const std::string& sql) {
    return sql.find("trials AS t") != sql.npos && sql.find("t.study_id = ?") != sql.npos;
  });
  EXPECT_GT(statements.size(), 5U);
  EXPECT_EQ(walks, 1) << ::testing::PrintToString(statements);
}

TEST_F(StudyWithOptuna, ASearcherThatLearnsIsToldOfTrialsByOptunaOnceAndTheLogReplays) {
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

TEST_F(StudyWithOptuna, ATrialThatOptunaFinishesWhileATunerRunsIsToldOfAtOnce) {
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

TEST_F(StudyWithOptuna, ATrialThatOptunaEnqueuedIsRunNextBesideATunerThatRuns) {
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

TEST_F(StudyWithOptuna, AWaitingTrialThatNobodyCanReadIsSaidToWaitInVainAndTheNextIsRun) {
  const StudySpec mine = spec(3);
  Study study(mine);
  const auto next = [&] {
    return study.apply([](StudyCore& core, double now_s) { return start(core, now_s); });
  };
  EXPECT_EQ(next(), 0);
  enqueue(mine.storage, 1, "no JSON");
  enqueue(mine.storage, 2, R"({"lr": {"a": 1}})");
  enqueue(mine.storage, 3, R"({"lr": 0.0123, "l1": 32})");
  EXPECT_EQ(next(), 1);
  EXPECT_EQ(next(), 2);
  study.look([](const StudyCore& core) {
    EXPECT_EQ(trial(core, 1).values, (Values{0.0123, 32}));
    EXPECT_TRUE(core.waits_in_vain(1));
    EXPECT_TRUE(core.waits_in_vain(2));
    EXPECT_FALSE(core.waits_in_vain(3));
  });
  const auto foreign = read_foreign_trials(mine.storage, "test");
  const auto all = histories(stored(), foreign, facts_of(mine));
  std::vector<std::string> in_vain;
  for (const TrialHistory& one : all)
    if (one.in_vain) in_vain.push_back(trial_label(one));
  EXPECT_THAT(in_vain, ::testing::ElementsAre("o1", "o2"));
  StudyCore again(mine);
  for (const Event& event : stored()) again.replay(event);
}

/// As Optuna makes one: without a description of ours.
void forget_description(const std::filesystem::path& file) {
  Database database(file, Database::Access::kWrite);
  database.run("DELETE FROM muster_studies");
}

TEST_F(StudyWithOptuna, AStudyThatOptunaMadeIsGoneOnWithIfTheSpaceHasItsParameters) {
  const StudySpec mine = spec(3);
  { const Study study(mine); }
  forget_description(mine.storage);
  add_optuna_trial(mine.storage, 0, 0.0123, 0.001);
  { const Study study(mine); }
  forget_description(mine.storage);
  add_optuna_trial(mine.storage, 1, 0.0123, 0.001, "momentum");
  EXPECT_THAT(test::refusal_of([&] { const Study study(mine); }),
              AllOf(HasSubstr("is another one"),
                    HasSubstr("- momentum, which Optuna's trials have"),
                    Not(HasSubstr("+ lr"))));
  StudySpec turned = spec(3);
  turned.mode = Mode::kMax;
  EXPECT_THAT(test::refusal_of([&] { const Study study(turned); }),
              AllOf(HasSubstr("- direction = MINIMIZE"), HasSubstr("+ direction = MAXIMIZE")));
}

TEST_F(StudyWithOptuna, AValueOfAParameterThatIsNotThereIsNotAdded) {
  StudySpec conditional = spec(10);
  conditional.space =
      Space(std::vector<Parameter>{{.name = "n", .domain = randint(1, 5)},
                                   {.name = "m", .domain = uniform(0, 1), .when = "n > 2"},
                                   {.name = "lr", .domain = uniform(0, 1)}});
  Study study(conditional);
  const auto add = [&](const std::map<std::string, Value>& values) {
    return test::error_of([&] { add_trial(conditional.storage, "test", values); });
  };
  EXPECT_THAT(add({{"n", 1}, {"m", 0.5}}), HasSubstr("parameter \"m\": it is there when n > 2"));
  EXPECT_THAT(read_foreign_trials(conditional.storage, "test"), SizeIs(0));
  EXPECT_EQ(add({{"n", 3}, {"m", 0.5}}), test::kNoError);
  EXPECT_EQ(add({{"n", 1}, {"lr", 0.5}}), test::kNoError);
  EXPECT_EQ(add({{"m", 0.5}}), test::kNoError) << "n is drawn";
  EXPECT_THAT(read_foreign_trials(conditional.storage, "test"), SizeIs(3));
}

}  // namespace
}  // namespace muster::tune
