// Optuna's tables and rows, as optuna itself makes them for the same study:
// tests/golden/tune_storage.
#include <limits>

#include <gmock/gmock.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/views/history.h"

#include "tests/support/folder.h"
#include "tests/support/golden.h"
#include "tests/support/numbers.h"
#include "tests/tune/written_study.h"

namespace muster::tune {
namespace {

const Json& storage_golden() {
  static const Json json = test::read_golden("tune_storage");
  return json;
}

using test::kInf;
using test::kNan;

/// The study that make_golden.py gives to Optuna.
void write_study(const std::filesystem::path& file) {
  const Space space{{"lr", loguniform(1e-5, 0.1)},
                    {"q", quniform(0, 1, 0.25)},
                    {"wide", uniform(-1e16, 123456789)},
                    {"l1", randint(2, 10)},
                    {"odd", qrandint(0, 9, 3)},
                    {"width", lograndint(1, 1025)},
                    {"choice", choice({2, 0.5, true, "aü\"", 1e-5})}};
  Json description = test::description_of(space, "goldö");
  const auto storage = open_storage(file, space, description);
  test::EventMaker make(space);
  const auto trial = [&](int64_t number, TrialState state, const Metrics& points) {
    std::vector<Event> events = {make.added(number,
                                            {{"lr", 3e-4},
                                             {"q", 0.75},
                                             {"wide", -2.5e15},
                                             {"l1", 8},
                                             {"odd", 6},
                                             {"width", 64},
                                             {"choice", "aü\""}}),
                                 make.started(number)};
    for (const auto& [step, value] : points)
      events.push_back(make.reported(number, std::stoll(step), {{"loss", value}}));
    events.push_back(make.ended(number, state));
    storage->append(events);
  };
  trial(0, TrialState::kComplete, {{"1", 0.5}, {"2", kNan}, {"3", kInf}, {"5", 0.25}});
  trial(1, TrialState::kPruned, {{"1", -kInf}});
  trial(2, TrialState::kFailed, {});
  trial(3, TrialState::kComplete, {{"1", 1}, {"2", kInf}});
}

class StorageGolden : public testing::Test {
 protected:
  StorageGolden() : database_((write_study(file()), file()), Database::Access::kRead) {}
  std::filesystem::path file() const { return folder_.path() / "study.db"; }

  test::Folder folder_;
  Database database_;
};

std::string without_blanks(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c); });
  return text;
}

/// A cell as the golden has it.
bool is_cell(const Statement& statement, int column, const Json& cell) {
  if (cell.is_null()) return statement.is_null(column);
  if (statement.is_null(column)) return false;
  if (cell.is_string()) return statement.text(column) == cell.get<std::string>();
  return statement.number(column) == cell.get<double>();
}

TEST_F(StorageGolden, HasOptunasTablesAndIndicesAsOptunaMakesThem) {
  for (const auto& [name, sql] : storage_golden()["schema"].items()) {
    const auto rows =
        test::rows_of(database_, "SELECT sql FROM sqlite_master WHERE name = '" + name + "'", 1);
    ASSERT_EQ(rows.size(), 1U) << name;
    EXPECT_EQ(without_blanks(rows[0]), without_blanks(sql.get<std::string>()));
  }
  EXPECT_EQ(storage_golden()["schema"].size(), 13U + 2U);
  // All others are ours, or SQLite's for a UNIQUE within a table.
  const auto others = test::rows_of(
      database_,
      "SELECT name FROM sqlite_master WHERE name NOT LIKE 'muster_%' AND sql IS NOT NULL",
      1);
  EXPECT_EQ(others.size(), storage_golden()["schema"].size());
}

void expect_rows(Database& database, const Json& golden) {
  for (const auto& [table, rows] : golden["rows"].items()) {
    Statement statement = database.prepare(golden["queries"][table].get<std::string>());
    size_t count = 0;
    for (; statement.step(); ++count) {
      ASSERT_LT(count, rows.size()) << table;
      for (size_t i = 0; i < rows[count].size(); ++i) {
        EXPECT_TRUE(is_cell(statement, int(i), rows[count][i]))
            << table << " row " << count << ": " << statement.text(int(i)) << ", Optuna has "
            << rows[count][i];
      }
    }
    EXPECT_EQ(count, rows.size()) << table;
  }
}

TEST_F(StorageGolden, HasTheRowsThatOptunaWritesForTheSameTrials) {
  expect_rows(database_, storage_golden());
}

/// As make_golden.py's SEVERAL; `reopened`: by a process that has not seen what it goes on with.
void write_several(const std::filesystem::path& file, bool reopened) {
  const Space space{{"q", quniform(0, 1, 0.25)}};
  Json description = test::description_of(space, "two", "max");
  description["metric"] = "accuracy";
  description["objectives"] = {"max accuracy", "min step_s"};
  description["constraints"] = {"peak_mib <= 900", "quality >= 1"};
  auto storage = open_storage(file, space, description);
  test::EventMaker make(space);
  int64_t number = 0;
  const auto trial = [&](const Metrics& metrics) {
    std::vector<Event> events = {make.added(number, {{"q", 0.75}}), make.started(number)};
    // Each metric by itself: the newest number of each counts.
    for (int64_t t = 0; t < static_cast<int64_t>(metrics.size()); ++t)
      events.push_back(make.reported(number, t + 1, {metrics[static_cast<size_t>(t)]}));
    storage->append(events);
    if (reopened) {
      storage.reset();
      storage = open_storage(file, space, description);
    }
    storage->append(std::vector{
        make.ended(number, metrics.empty() ? TrialState::kFailed : TrialState::kComplete)});
    ++number;
  };
  trial({{"accuracy", 0.125},
         {"step_s", 2},
         {"peak_mib", 800},
         {"quality", 0.75},
         {"accuracy", 0.5}});
  trial({{"accuracy", 0.25}, {"step_s", kInf}, {"peak_mib", 900}, {"quality", 1}});
  trial({});
  trial({{"accuracy", 0.75}, {"step_s", 1e-9}, {"peak_mib", 912.5}, {"quality", 1.125}});
  trial({{"accuracy", 0.375}, {"step_s", 1}, {"peak_mib", 899}, {"quality", 2}});
  trial({{"accuracy", 0.625}, {"step_s", 3}, {"peak_mib", 899}, {"quality", 1}});
  trial({{"accuracy", 0.25}, {"step_s", 4}, {"peak_mib", 899}, {"quality", 2}});
}

TEST(StorageGoldenOfSeveral, HasTheRowsThatOptunaWritesAndFindsTheSameFront) {
  const Json& golden = storage_golden()["several"];
  for (const bool reopened : {false, true}) {
    const test::Folder folder;
    const std::filesystem::path file = folder.path() / "several.db";
    write_several(file, reopened);
    {
      Database database(file, Database::Access::kRead);
      expect_rows(database, golden);
    }
    const StudySummary summary = find_study(file, "two");
    EXPECT_EQ(summary.goals.objectives,
              (std::vector<Objective>{{"accuracy", Mode::kMax}, {"step_s", Mode::kMin}}));
    const StudyFacts facts = facts_of(summary);
    const auto trials = histories(read_events(file, "two"), facts);
    Json front = Json::array();
    for (const TrialHistory* trial : front_of(trials, facts)) front.push_back(trial->number);
    EXPECT_EQ(front, golden["best_trials"]);
    EXPECT_EQ(best_of(trials, facts), nullptr);
  }
}

/// Optuna's own rows, put where Optuna has them.
TEST(StorageGoldenOfSeveral, ReadsWhatOptunaWroteWithoutUs) {
  const test::Folder folder;
  const std::filesystem::path file = folder.path() / "several.db";
  write_several(file, false);
  {
    Database database(file, Database::Access::kWrite);
    for (const char* table : {"muster_trials", "muster_studies", "muster_events"})
      database.run(concat("DELETE FROM ", table).c_str());
  }
  const StudySummary summary = find_study(file, "two");
  EXPECT_TRUE(summary.description.is_null());
  const auto foreign = read_foreign_trials(file, "two");
  const StudyFacts facts = facts_of(summary, foreign);
  EXPECT_EQ(facts.metric, "accuracy");
  const auto trials = histories(foreign, facts);
  Json front = Json::array();
  for (const TrialHistory* trial : front_of(trials, facts)) front.push_back(trial->number);
  EXPECT_EQ(front, storage_golden()["several"]["best_trials"]);
  EXPECT_EQ(trials[3].goals.violation(), 12.5);
  EXPECT_FALSE(trials[0].goals.is_feasible());
}

}  // namespace
}  // namespace muster::tune
