// `muster study list|show|best`: which stream says what, and what is refused.
#include <limits>
#include <memory>
#include <set>
#include <sstream>

#include <gmock/gmock.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "cli/study/study_commands.h"
#include "tests/cli/study/study_commands.h"
#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/tune/written_study.h"

namespace muster::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

TEST_F(StudyCommands, ListSaysWhatIsInAFile) {
  EXPECT_EQ(say(study_list).out,
            "study    metric  mode  trials  made by\n"
            "fashion  loss    min        3  muster\n");
  EXPECT_EQ(parse_json(say(study_list, {"--json"}).out, "out"),
            Json::array({{{"name", "fashion"},
                          {"metric", "loss"},
                          {"mode", "min"},
                          {"trials", 3},
                          {"made_by", "muster"}}}));
}

TEST_F(StudyCommands, ListHasNamesAloneForAScript) {
  EXPECT_EQ(say(study_list, {"--names"}).out, "fashion\n");
}

TEST_F(StudyCommands, RefuseNumbersThatMeanNothing) {
  for (const char* count : {"0", "-1"})
    EXPECT_THAT(test::refusal_of([&] {
                  say(study_ask, {"--count", count});
                }),
                HasSubstr("--count: at least 1"));
  EXPECT_THAT(test::refusal_of([&] {
                say(study_tell, {"0", "loss=1", "--step", "-5"});
              }),
              HasSubstr("--step: a whole number of at least 0 (got -5)"));
}

TEST_F(StudyCommands, ShowSaysWhichTrialIsRunOnceMoreAndWhoPutItIn) {
  const std::filesystem::path failed = folder_.path() / "failed.db";
  tune::Space space = test::small_space();
  test::EventMaker make(space);
  const std::vector<tune::Event> events = {
      make.added(0), make.started(0), make.ended(0, tune::TrialState::kFailed, "exit code 1")};
  tune::open_storage(failed, space, test::description_of(space))->append(events);
  std::ostringstream out, err;
  program::Console console(out, err, false, false);
  const std::vector<std::string> words = {failed.string()}, json = {failed.string(), "--json"};
  EXPECT_EQ(study_restart(words, console), 0);
  EXPECT_THAT(err.str(), HasSubstr("once more: trial 0\n"));
  EXPECT_EQ(study_show(words, console), 0);
  EXPECT_THAT(out.str(), AllOf(HasSubstr("trial 0 once more"), Not(HasSubstr("Optuna"))));
  out.str("");
  EXPECT_EQ(study_show(json, console), 0);
  EXPECT_EQ(parse_json(out.str(), "out")["trials"][1]["added_by"], "muster");
}

/// A trial that Optuna added to the only study of the file.
void add_foreign(const std::filesystem::path& file, int64_t number, const std::string& state) {
  tune::Database database(file, tune::Database::Access::kWrite);
  database
      .prepare("INSERT INTO trials (number, study_id, state) SELECT ?, study_id, ? FROM studies")
      .bind(1, number)
      .bind(2, state)
      .run();
}

/// What Optuna's enqueue_trial keeps of a trial that waits.
void set_fixed_params(const std::filesystem::path& file, int64_t number, const std::string& json) {
  tune::Database database(file, tune::Database::Access::kWrite);
  database
      .prepare(
          "INSERT INTO trial_system_attributes (trial_id, \"key\", value_json) "
          "SELECT trial_id, 'fixed_params', ? FROM trials WHERE number = ?")
      .bind(1, json)
      .bind(2, number)
      .run();
}

/// A study whose only trial of its own is over.
std::unique_ptr<tune::Storage> finished_study(const std::filesystem::path& file,
                                              tune::Space& space,
                                              test::EventMaker& make) {
  std::vector<tune::Event> events;
  make.whole(0, 3, events);
  auto storage = tune::open_storage(file, space, test::description_of(space));
  storage->append(events);
  return storage;
}

// No tuner has looked at them yet.
TEST(StudyShow, MarksAWaitingTrialOutsideTheSpaceAtOnce) {
  const test::Folder folder;
  const std::filesystem::path file = folder.path() / "s.db";
  tune::Space space = test::small_space();
  test::EventMaker make(space);
  finished_study(file, space, make);
  const std::vector<std::string> params = {
      R"({"batch_size": 3})", R"({"lr": 0.01, "batch_size": 4})", R"({"no_such": 1})", "no JSON"};
  for (size_t i = 0; i < params.size(); ++i) {
    const auto number = static_cast<int64_t>(i + 1);
    add_foreign(file, number, "WAITING");
    set_fixed_params(file, number, params[i]);
  }
  const std::vector<std::string> words = {file.string()}, as_json = {file.string(), "--json"};
  std::ostringstream out, err;
  program::Console console(out, err, false, false);
  EXPECT_EQ(study_show(words, console), 0);
  EXPECT_THAT(err.str(), HasSubstr("5 trials: 1 COMPLETE, 3 IN_VAIN, 1 WAITING"));
  EXPECT_THAT(
      out.str(),
      AllOf(HasSubstr("o1     IN_VAIN"), HasSubstr("o2     WAITING"), HasSubstr("batch_size")));
  out.str("");
  EXPECT_EQ(study_show(as_json, console), 0);
  const Json trials = parse_json(out.str(), "out")["trials"];
  EXPECT_EQ(trials[1]["in_vain"], true);
  EXPECT_THAT(trials[1]["reason"].get<std::string>(), HasSubstr("batch_size"));
  EXPECT_EQ(trials[2]["in_vain"], false);
  EXPECT_EQ(trials[2]["params"], (Json{{"lr", 0.01}, {"batch_size", 4}})) << "as it will be run";
  EXPECT_THAT(trials[3]["reason"].get<std::string>(), HasSubstr("no_such"));
  EXPECT_EQ(trials[4]["in_vain"], true);
}

TEST_F(StudyCommands, AddRefusesAPointOutsideTheSpaceAtOnce) {
  EXPECT_THAT(test::refusal_of([&] { say(study_add, {"batch_size=3"}); }), HasSubstr("batch_size"));
  EXPECT_THAT(test::refusal_of([&] { say(study_add, {"lr=7"}); }), HasSubstr("lr"));
  EXPECT_THAT(test::refusal_of([&] { say(study_add, {"no_such=1"}); }), HasSubstr("no_such"));
  EXPECT_THAT(say(study_show).err, HasSubstr("3 trials")) << "nothing was added";
}

TEST(StudyShow, MarksATrialThatWaitsInVainAndPromisesNothingOfIt) {
  const test::Folder folder;
  const std::filesystem::path file = folder.path() / "s.db";
  tune::Space space = test::small_space();
  test::EventMaker make(space);
  const auto storage = finished_study(file, space, make);
  add_foreign(file, 1, "WAITING");
  const auto show = [&](const std::vector<std::string>& flags = {}) {
    std::vector<std::string> words = {file.string()};
    words.insert(words.end(), flags.begin(), flags.end());
    std::ostringstream out, err;
    program::Console console(out, err, false, false);
    EXPECT_EQ(study_show(words, console), 0);
    return Said{0, out.str(), err.str()};
  };
  EXPECT_THAT(show().err,
              AllOf(HasSubstr("2 trials: 1 COMPLETE, 1 WAITING"), HasSubstr("goes on")));
  storage->append(
      {{make.make(-1,
                  tune::TunerNote{.text = "Optuna's trial 1 waits in vain: l1: no such value",
                                  .in_vain = 1})}});
  const Said said = show();
  EXPECT_THAT(said.err,
              AllOf(HasSubstr("2 trials: 1 COMPLETE, 1 IN_VAIN"), Not(HasSubstr("goes on"))));
  EXPECT_THAT(said.out, HasSubstr("l1: no such value"));
  const Json json = parse_json(show({"--json"}).out, "out");
  EXPECT_EQ(json["trials"][1]["state"], "WAITING");  // as Optuna has it
  EXPECT_EQ(json["trials"][1]["in_vain"], true);
  {
    tune::Database database(file, tune::Database::Access::kWrite);
    database.run("UPDATE trials SET state = 'FAIL' WHERE number = 1");  // who made it ended it
  }
  EXPECT_THAT(show().err, HasSubstr("2 trials: 1 COMPLETE, 1 FAIL"));
}

TEST(StudyShow, PromisesNothingOfATrialThatOptunaRuns) {
  const test::Folder folder;
  const std::filesystem::path file = folder.path() / "s.db";
  tune::Space space = test::small_space();
  test::EventMaker make(space);
  finished_study(file, space, make);
  add_foreign(file, 1, "RUNNING");
  std::ostringstream out, err;
  program::Console console(out, err, false, false);
  const std::vector<std::string> words = {file.string()};
  EXPECT_EQ(study_show(words, console), 0);
  EXPECT_THAT(err.str(), AllOf(HasSubstr("1 COMPLETE, 1 RUNNING"), Not(HasSubstr("goes on"))));
}

TEST_F(StudyCommands, ShowPutsTheTableOnStdoutAndTheHeadlineOnStderr) {
  const Said said = say(study_show);
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.err, HasSubstr("fashion: 3 trials: 2 COMPLETE, 1 RUNNING; best: trial 1, loss"));
  EXPECT_THAT(said.err, HasSubstr("no tuner runs it"));
  const auto lines = split(said.out, '\n');
  ASSERT_THAT(lines, SizeIs(5));
  EXPECT_THAT(lines[0], StartsWith("trial  state"));
  for (const char* column : {"loss", "lr", "l1", "batch_size", "epochs", "step", "reason"})
    EXPECT_THAT(lines[0], HasSubstr(column));
  EXPECT_THAT(lines[1],
              AllOf(HasSubstr("COMPLETE"), HasSubstr("0.33333"), HasSubstr("max_t reached")));
  EXPECT_THAT(lines[3], HasSubstr("RUNNING"));
}

TEST_F(StudyCommands, ShowATrialSaysWhomItCopied) {
  const std::filesystem::path copied = folder_.path() / "copied.db";
  tune::Space space = test::small_space();
  test::EventMaker make(space);
  tune::AttemptStarted copy{.attempt = 2, .donor = 1};
  copy.point = space.point_of({{"lr", 0.02}, {"l1", 64}, {"batch_size", 4}});
  copy.values = space.resolve(copy.point);
  tune::open_storage(copied, space, test::description_of(space))
      ->append(
          std::vector<tune::Event>{make.added(0, {{"lr", 0.01}, {"l1", 64}, {"batch_size", 2}}),
                                   make.started(0),
                                   make.added(1),
                                   make.started(1),
                                   make.reported(0, 20, {{"loss", 0.5}}),
                                   make.ended(0, tune::TrialState::kPaused, "paused"),
                                   make.make(0, copy)});
  std::ostringstream out, err;
  program::Console console(out, err, false, false);
  const std::vector<std::string> words{copied.string(), "--trial", "0"};
  EXPECT_EQ(study_show(words, console), 0);
  EXPECT_THAT(out.str(),
              AllOf(HasSubstr("  lr = 0.02\n"),
                    HasSubstr("  attempt 2, behind step 20: as trial 1, lr 0.01 -> 0.02, "
                              "batch_size 2 -> 4\n")));
  std::ostringstream json;
  program::Console json_console(json, err, false, false);
  const std::vector<std::string> json_words{copied.string(), "--trial", "0", "--json"};
  EXPECT_EQ(study_show(json_words, json_console), 0);
  const Json change = parse_json(json.str(), "out").at("changes").at(0);
  EXPECT_EQ(change.at("donor"), 1);
  EXPECT_EQ(change.at("before").at("batch_size"), 2);
}

TEST_F(StudyCommands, ShowATrialHasItsReports) {
  const Said said = say(study_show, {"--trial", "0"});
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("trial 0  COMPLETE  loss 0.3333333333333333\n"),
                    HasSubstr("  epochs = 10\n"),
                    HasSubstr("step  attempt")));
  EXPECT_THAT(split(said.out, '\n'), SizeIs(11));
  const Json json = parse_json(say(study_show, {"--trial", "0", "--json"}).out, "out");
  EXPECT_EQ(json["reports"].size(), 3U);
  EXPECT_THAT(test::refusal_of([&] {
                say(study_show, {"--trial", "7"});
              }),
              HasSubstr("has no trial 7: it has 3 trials"));
}

TEST_F(StudyCommands, OptunasOwnTrialsHaveNamesOfTheirOwn) {
  {
    tune::Database database(file(), tune::Database::Access::kWrite);
    database.run(
        "INSERT INTO trials (number, study_id, state) SELECT 2, study_id, 'COMPLETE' FROM studies");
    database
        .prepare(
            "INSERT INTO trial_values (trial_id, objective, value, value_type) "
            "VALUES (?, 0, 0.001, 'FINITE')")
        .bind(1, database.last_rowid())
        .run();
  }
  EXPECT_THAT(split(say(study_show).out, '\n')[4], StartsWith("o2     COMPLETE    0.001"));
  EXPECT_THAT(say(study_show).err, HasSubstr("best: trial o2, loss 0.001"));
  EXPECT_THAT(say(study_show, {"--trial", "o2"}).out, StartsWith("trial o2  COMPLETE"));
  EXPECT_THAT(say(study_show, {"--trial", "2"}).out, StartsWith("trial 2  RUNNING"));
  const Json json = parse_json(say(study_show, {"--json"}).out, "out");
  std::set<int64_t> numbers;
  for (const Json& trial : json["trials"]) numbers.insert(trial["number"].get<int64_t>());
  EXPECT_EQ(numbers, (std::set<int64_t>{-3, 0, 1, 2}));
  EXPECT_EQ(json["best_trial"], -3);
  EXPECT_EQ(json["trials"][3]["optuna_number"], 2);
  EXPECT_EQ(json["trials"][1]["optuna_number"], 1);
}

TEST_F(StudyCommands, BestIsTheTrialAsTextOrAsAnObject) {
  EXPECT_THAT(say(study_best).out,
              StartsWith("trial 1  COMPLETE  loss 0.16666666666666666\n  lr = "));
  const Json json = parse_json(say(study_best, {"--json"}).out, "out");
  EXPECT_EQ(json["number"], 1);
  EXPECT_EQ(json["params"]["epochs"], 10);
  EXPECT_EQ(json["metrics"]["accuracy"], 0.5);
}

// As Optuna's Study.best_trial.
TEST_F(StudyCommands, BestMayBeInfiniteWhoeverTellsIt) {
  std::filesystem::remove(file());
  tune::Space space = test::small_space();
  test::EventMaker make(space);
  std::vector<tune::Event> events;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double value : {1.0, -kInfinity, kInfinity}) {
    const auto number = static_cast<int64_t>(events.size() / 4);
    events.push_back(make.added(number));
    events.push_back(make.started(number));
    events.push_back(make.reported(number, 1, {{"loss", value}}));
    events.push_back(make.ended(number, tune::TrialState::kComplete));
  }
  tune::open_storage(file(), space, test::description_of(space))->append(events);
  EXPECT_THAT(say(study_best).out, StartsWith("trial 1  COMPLETE  loss -inf\n"));
  EXPECT_EQ(parse_json(say(study_best, {"--json"}).out, "out")["value"], "-inf");
  EXPECT_THAT(say(study_show).err, HasSubstr("best: trial 1, loss -inf"));
  EXPECT_EQ(parse_json(say(study_export, {"--format", "json"}).out, "out")["best_trial"], 1);
}

TEST_F(StudyCommands, BestWithoutAResultFails) {
  std::filesystem::remove(file());
  const tune::Space space = test::small_space();
  tune::open_storage(file(), space, test::description_of(space));
  const Said said = say(study_best);
  EXPECT_EQ(said.code, 1);
  EXPECT_THAT(said.out, IsEmpty());
  EXPECT_THAT(said.err, HasSubstr("has no trial with a number for loss yet"));
}

// What a trial reported and is no number is not what it never reported.
TEST_F(StudyCommands, ShowTellsNanFromNothing) {
  const std::filesystem::path file = folder_.path() / "nan.db";
  tune::Space space = test::small_space();
  test::EventMaker make(space);
  const std::vector<tune::Event> events = {
      make.added(0),
      make.started(0),
      make.reported(0, 1, {{"loss", std::numeric_limits<double>::quiet_NaN()}}),
      make.ended(0, tune::TrialState::kComplete, ""),
      make.added(1),
      make.started(1),
      make.ended(1, tune::TrialState::kFailed, "exit code 1")};
  tune::open_storage(file, space, test::description_of(space))->append(events);
  std::ostringstream out, err;
  program::Console console(out, err, false, false);
  EXPECT_EQ(study_show(std::vector<std::string>{file.string()}, console), 0);
  const std::string table = out.str();
  const size_t first = table.find("COMPLETE"), second = table.find("FAIL");
  ASSERT_TRUE(first != std::string::npos && second != std::string::npos) << table;
  EXPECT_THAT(table.substr(first, second - first), HasSubstr(" nan "));
  EXPECT_THAT(table.substr(second), Not(HasSubstr("nan")));
}

TEST(TextTable, CutsLongCellsAtWholeLettersAndPutsNumbersOnTheRight) {
  EXPECT_EQ(text_table({{"n", "why"}, {"1", "wider than six columns"}}, 6, 20),
            "n  why\n1  wider than six c…\n");
  EXPECT_EQ(text_table({{"n", "text"}, {"1", "größer als erlaubt"}, {"100", "a\nb"}}, 6),
            "  n  text\n"
            "  1  größe…\n"
            "100  a b\n");
}

}  // namespace
}  // namespace muster::cli
