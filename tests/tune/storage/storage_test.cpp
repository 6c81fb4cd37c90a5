#include "muster/tune/storage/storage.h"

#include <fstream>
#include <limits>

#include <gmock/gmock.h>

#include "muster/base/json.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/numbers.h"
#include "tests/tune/written_study.h"

namespace muster::tune {
namespace {

using test::description_of;
using test::EventMaker;
using test::rows_of;
using test::small_space;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using test::kInf;
using test::kNan;

class StorageTest : public testing::Test {
 protected:
  std::unique_ptr<Storage> open(const std::string& name = "fashion") {
    return open_storage(file(), space_, description_of(space_, name));
  }
  std::filesystem::path file() const { return folder_.path() / "fashion.db"; }

  test::Folder folder_;
  Space space_ = small_space();
};

void expect_same(const std::vector<Event>& a, const std::vector<Event>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].id, b[i].id);
    EXPECT_EQ(a[i].time_s, b[i].time_s);
    EXPECT_EQ(a[i].trial, b[i].trial);
    EXPECT_EQ(kind_of(a[i]), kind_of(b[i]));
    EXPECT_EQ(payload_text(a[i]), payload_text(b[i]));
  }
}

TEST_F(StorageTest, GivesBackWhatWasAppendedWhileOpenAndAfter) {
  EventMaker make(space_);
  std::vector<Event> events = {make.make(-1, TunerNote{"started"})};
  for (int64_t trial = 0; trial < 3; ++trial) make.whole(trial, 4, events);
  {
    const auto storage = open();
    const size_t half = events.size() / 2;
    storage->append(std::span(events).first(half));
    storage->append(std::span(events).subspan(half));
    storage->append({});
    expect_same(storage->events(), events);
    expect_same(read_events(file(), "fashion"), events);
  }
  expect_same(open()->events(), events);
}

TEST_F(StorageTest, KeepsSeveralStudiesOfOneFileApart) {
  EventMaker one(space_), two(space_);
  std::vector<Event> first, second;
  one.whole(0, 2, first);
  two.whole(0, 3, second);
  two.whole(1, 3, second);
  const auto a = open("a"), b = open("b");
  a->append(std::span(first).first(2));
  b->append(second);
  a->append(std::span(first).subspan(2));
  expect_same(a->events(), first);
  expect_same(b->events(), second);
  const auto studies = studies_of(file());
  ASSERT_THAT(studies, SizeIs(2));
  EXPECT_EQ(studies[0].name, "a");
  EXPECT_EQ(studies[1].trials, 2);
  EXPECT_EQ(studies[1].metric, "loss");
  EXPECT_EQ(studies[1].mode, Mode::kMin);
  EXPECT_EQ(studies[1].description, description_of(space_, "b"));
  EXPECT_EQ(rows_of(file(), "SELECT number FROM trials WHERE study_id = 2", 1).size(), 2U);
}

TEST_F(StorageTest, RefusesAnotherSpaceUnderTheSameNameWithTheDifference) {
  open();
  const Space other{{"lr", loguniform(1e-3, 1e-1)}};
  const std::string text =
      test::refusal_of([&] { open_storage(file(), other, description_of(other)); });
  EXPECT_THAT(text, HasSubstr("study \"fashion\" in"));
  EXPECT_THAT(text, HasSubstr("loguniform(0.001"));
  EXPECT_THAT(text, HasSubstr("batch_size"));
  EXPECT_THAT(test::refusal_of(
                  [&] { open_storage(file(), space_, description_of(space_, "fashion", "max")); }),
              HasSubstr("- mode = \"min\""));
  EXPECT_NO_THROW(open());
}

TEST_F(StorageTest, StoresNothingOfABatchThatIsRefused) {
  EventMaker make(space_);
  const auto storage = open();
  storage->append(std::vector<Event>{make.added(0), make.started(0)});
  // Its last event is of a trial that nobody added.
  const std::vector<Event> bad = {make.reported(0, 1, {{"loss", 1}}), make.reported(5, 1, {})};
  EXPECT_THROW(storage->append(bad), Error);
  EXPECT_THAT(storage->events(), SizeIs(2));
  EXPECT_THAT(rows_of(file(), "SELECT * FROM trial_intermediate_values", 1), IsEmpty());
  // The trial's last metric was forgotten as well: it is not in its value.
  make = EventMaker(space_, 3);
  storage->append(std::vector<Event>{make.ended(0, TrialState::kComplete)});
  EXPECT_THAT(rows_of(file(), "SELECT state FROM trials", 1), ElementsAre("FAIL"));
  EXPECT_THAT(rows_of(file(), "SELECT * FROM trial_values", 1), IsEmpty());
}

TEST_F(StorageTest, ATrialIsRunningInOptunasTablesUntilItIsOver) {
  EventMaker make(space_);
  const auto storage = open();
  const auto states = [&] { return rows_of(file(), "SELECT state FROM trials", 1); };
  storage->append(std::vector<Event>{make.added(0), make.started(0)});
  EXPECT_THAT(states(), ElementsAre("RUNNING"));
  storage->append(std::vector<Event>{make.reported(0, 1, {{"loss", 1}, {"x", 2}}),
                                     make.ended(0, TrialState::kPaused)});
  EXPECT_THAT(states(), ElementsAre("RUNNING"));
  storage->append(std::vector<Event>{make.started(0, 2),
                                     make.reported(0, 2, {{"loss", 0.5}}),
                                     make.reported(0, 3, {{"other", 9}}),
                                     make.ended(0, TrialState::kPruned, "stopped at rung 2")});
  EXPECT_THAT(rows_of(file(), "SELECT state, value FROM trials NATURAL JOIN trial_values", 2),
              ElementsAre("PRUNED|0.5"));
  EXPECT_THAT(rows_of(file(), "SELECT \"key\", value_json FROM trial_user_attributes", 2),
              ElementsAre("epochs|10", "muster_reason|\"stopped at rung 2\""));
  EXPECT_THAT(rows_of(file(), "SELECT datetime_start, datetime_complete FROM trials", 2),
              ElementsAre("2023-11-14 22:13:20.750000|2023-11-14 22:13:22.250000"));
  EXPECT_THAT(rows_of(file(), "SELECT step, name, value FROM muster_metrics", 3),
              ElementsAre("1|loss|1", "1|x|2", "2|loss|0.5", "3|other|9"));
}

TEST_F(StorageTest, TheValueOfATrialThatWasOpenWhenTheFileWasClosedIsStillKnown) {
  EventMaker make(space_);
  open()->append(std::vector<Event>{make.added(0),
                                    make.started(0),
                                    make.reported(0, 1, {{"loss", 0.5}}),
                                    make.reported(0, 2, {{"loss", 0.75}}),
                                    make.added(1)});
  Json description = description_of(space_);
  open()->append(
      std::vector<Event>{make.ended(0, TrialState::kComplete), make.ended(1, TrialState::kFailed)});
  EXPECT_THAT(rows_of(file(), "SELECT trial_id, value FROM trial_values", 2),
              ElementsAre("1|0.75"));
}

TEST_F(StorageTest, ScopeBestKeepsTheBestReport) {
  EventMaker make(space_);
  Json description = description_of(space_);
  description["scope"] = "best";
  const auto storage = open_storage(file(), space_, description);
  storage->append(std::vector<Event>{make.added(0),
                                     make.started(0),
                                     make.reported(0, 1, {{"loss", kNan}}),
                                     make.reported(0, 2, {{"loss", 0.25}}),
                                     make.reported(0, 3, {{"loss", kInf}}),
                                     make.ended(0, TrialState::kComplete)});
  EXPECT_THAT(rows_of(file(), "SELECT value, value_type FROM trial_values", 2),
              ElementsAre("0.25|FINITE"));
}

TEST_F(StorageTest, AnExpressionWithoutAFiniteImageKeepsItsDrawsAndItsValue) {
  space_ = Space{{"w", sample_from("3 * uniform(0, 1)")},
                 {"g", grid_search({1, "b"})},
                 {"n", randn(0, 2)},
                 {"f", sample_from([](const Resolved&) { return Value(7); })}};
  EventMaker make(space_);
  TrialAdded added;
  added.point.assign(space_.dimensions().size(), 0.5);
  for (size_t d = 0; d < added.point.size(); ++d)
    if (space_.dimensions()[d].name == "g") added.point[d] = 1;
  added.values = space_.resolve(added.point);
  open()->append(std::vector<Event>{make.make(0, added)});
  EXPECT_THAT(
      rows_of(file(), "SELECT param_name, param_value, distribution_json FROM trial_params", 3),
      ElementsAre(
          R"(w#0|0.5|{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 1.0, "log": false}})",
          R"(g|1.0|{"name": "CategoricalDistribution", "attributes": {"choices": [1, "b"]}})",
          R"(n|0.5|{"name": "FloatDistribution", "attributes": {"step": null, "low": -20.0, "high": 20.0, "log": false}})"));
  EXPECT_THAT(rows_of(file(), "SELECT \"key\", value_json FROM trial_user_attributes", 2),
              ElementsAre("w|1.5", "f|7"));
}

TEST_F(StorageTest, ATrialThatGoesOnWithOtherValuesHasTheseAsItsParameters) {
  space_ = Space(std::vector<Parameter>{
      {.name = "optimizer", .domain = choice({"adam", "sgd"})},
      {.name = "momentum", .domain = uniform(0.8, 0.99), .when = "optimizer == 'sgd'"},
      {.name = "w", .domain = sample_from("3 * uniform(0, 1)")}});
  EventMaker make(space_);
  const auto storage = open();
  storage->append(std::vector<Event>{
      make.added(
          0, std::map<std::string, Value>{{"optimizer", "sgd"}, {"momentum", 0.9}, {"w#0", 0.5}}),
      make.started(0)});
  const char* params = "SELECT param_name, param_value FROM trial_params ORDER BY param_name";
  EXPECT_THAT(rows_of(file(), params, 2), ElementsAre("momentum|0.9", "optimizer|1.0", "w#0|0.5"));
  AttemptStarted as_another{.attempt = 2, .from_checkpoint = "c/3", .donor = 7};
  as_another.point =
      space_.with_conditions(space_.point_of({{"optimizer", "adam"}, {"w#0", 0.25}}));
  as_another.values = space_.resolve(as_another.point);
  storage->append(std::vector<Event>{make.make(0, as_another)});
  EXPECT_THAT(rows_of(file(), params, 2), ElementsAre("optimizer|0.0", "w#0|0.25"));
  EXPECT_THAT(rows_of(file(), "SELECT \"key\", value_json FROM trial_user_attributes", 2),
              ElementsAre("w|0.75"));
  const std::vector<Event> log = storage->events();
  const auto& read = std::get<AttemptStarted>(log.back().what);
  EXPECT_EQ(read.donor, 7);
  EXPECT_EQ(read.values, as_another.values);
}

TEST_F(StorageTest, DeletingAStudyInOptunaDeletesItsLog) {
  EventMaker make(space_);
  std::vector<Event> events;
  make.whole(0, 2, events);
  open()->append(events);
  open("other")->append(events);
  {
    Database database(file(), Database::Access::kWrite);
    database.run(
        "DELETE FROM study_directions WHERE study_id = 2;"
        "DELETE FROM study_system_attributes WHERE study_id = 2;"
        "DELETE FROM trials WHERE study_id = 2;"
        "DELETE FROM studies WHERE study_name = 'other'");
  }
  EXPECT_THAT(rows_of(file(), "SELECT DISTINCT study_id FROM muster_log", 1), ElementsAre("1"));
  EXPECT_THAT(open("other")->events(), IsEmpty());
  EXPECT_THAT(open()->events(), SizeIs(events.size()));
}

TEST_F(StorageTest, TrialsThatOptunaAddedAreGivenWithTheirParametersAndValues) {
  EventMaker make(space_);
  std::vector<Event> events;
  make.whole(0, 2, events);
  const auto storage = open();
  storage->append(events);
  {
    Database database(file(), Database::Access::kWrite);
    database.run(R"(
      INSERT INTO trials VALUES (2, 1, 1, 'COMPLETE', '2026-11-21 17:20:09.500000',
        '2026-11-21 17:20:10.000000');
      INSERT INTO trial_params VALUES (90, 2, 'lr', 0.01, '{"name": "FloatDistribution",
        "attributes": {"step": null, "low": 0.0001, "high": 0.1, "log": true}}');
      INSERT INTO trial_params VALUES (91, 2, 'l1', 2.0, '{"name": "CategoricalDistribution",
        "attributes": {"choices": [4, "x", 16]}}');
      INSERT INTO trial_params VALUES (92, 2, 'n', 3.0, '{"name": "IntUniformDistribution",
        "attributes": {"step": 1, "low": 1, "high": 9}}');
      INSERT INTO trial_params VALUES (93, 2, 'c', 1.0, '{"name": "CategoricalDistribution",
        "attributes": {"choices": ["a", null]}}');
      INSERT INTO trial_values VALUES (90, 2, 0, NULL, 'INF_POS');
      INSERT INTO trial_intermediate_values VALUES (90, 2, 1, 0.5, 'FINITE');)");
  }
  storage->news();
  const auto trials = storage->finished_trials();
  ASSERT_THAT(trials, SizeIs(1));
  EXPECT_EQ(trials[0].number, 1);
  EXPECT_EQ(trials[0].state, TrialState::kComplete);
  EXPECT_EQ(trials[0].value, kInf);
  EXPECT_EQ(trials[0].params,
            (std::map<std::string, Value>{{"lr", 0.01}, {"l1", 16}, {"n", 3}, {"c", "None"}}));
  EXPECT_THAT(trials[0].log_params, ElementsAre("lr"));
  EXPECT_THAT(trials[0].intermediate, ElementsAre(std::pair(1, 0.5)));
  EXPECT_EQ(trials[0].ended_s - trials[0].started_s, 0.5);
  EXPECT_THAT(storage->finished_trials(), testing::IsEmpty());  // each once
  EXPECT_EQ(read_foreign_trials(file(), "fashion").size(), 1U);
  // Our next trial takes the next number of Optuna's.
  storage->append(std::vector<Event>{make.added(1)});
  EXPECT_THAT(rows_of(file(),
                      "SELECT t.number, m.number FROM trials AS t JOIN muster_trials AS m "
                      "ON m.trial_id = t.trial_id",
                      2),
              ElementsAre("0|0", "2|1"));
}

TEST_F(StorageTest, FindsAStudyByItsNameOrTheOnlyOne) {
  open();
  EXPECT_EQ(find_study(file(), "").name, "fashion");
  EXPECT_THAT(test::refusal_of([&] { find_study(file(), "fashoin"); }),
              HasSubstr("did you mean \"fashion\"?"));
  open("other");
  EXPECT_THAT(test::refusal_of([&] { find_study(file(), ""); }),
              HasSubstr("--study fashion, --study other"));
  EXPECT_THAT(test::refusal_of([&] { studies_of(folder_.path() / "none.db"); }),
              HasSubstr("no such file"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "none.db"));
}

TEST_F(StorageTest, RefusesFilesOfOthersAndLeavesThemAsTheyAre) {
  std::ofstream(file()) << "name = \"fashion\"\nmetric = \"accuracy\"\nmode = \"max\"\n";
  EXPECT_THAT(test::refusal_of([&] { open(); }), HasSubstr("cannot be read as a study"));
  EXPECT_THAT(test::refusal_of([&] { studies_of(file()); }), HasSubstr("not a database"));
  const auto other = folder_.path() / "other.db";
  {
    Database database(other, Database::Access::kWrite);
    database.run("CREATE TABLE songs (name TEXT)");
  }
  const auto opened = [&] { open_storage(other, space_, description_of(space_)); };
  EXPECT_THAT(test::refusal_of(opened), HasSubstr("without Optuna's tables"));
  EXPECT_THAT(rows_of(other, "SELECT name FROM sqlite_master", 1), ElementsAre("songs"));
  EXPECT_THAT(rows_of(other, "PRAGMA journal_mode", 1), ElementsAre("delete"));
}

TEST_F(StorageTest, RefusesAnotherVersionOfOptunasSchema) {
  open();
  {
    Database database(file(), Database::Access::kWrite);
    database.run("UPDATE alembic_version SET version_num = 'v3.0.0.d'");
  }
  EXPECT_THAT(test::refusal_of([&] { open(); }), HasSubstr("v3.0.0.d"));
  EXPECT_THAT(test::refusal_of([&] { studies_of(file()); }), HasSubstr("optuna storage upgrade"));
}

}  // namespace
}  // namespace muster::tune
