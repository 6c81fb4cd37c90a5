// Optuna's tables and rows, as optuna itself makes them for the same study:
// tests/golden/tune_storage.
#include <limits>

#include <gmock/gmock.h>

#include "muster/base/file.h"
#include "muster/base/json.h"

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

TEST_F(StorageGolden, HasTheRowsThatOptunaWritesForTheSameTrials) {
  for (const auto& [table, rows] : storage_golden()["rows"].items()) {
    Statement statement = database_.prepare(storage_golden()["queries"][table].get<std::string>());
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

}  // namespace
}  // namespace muster::tune
