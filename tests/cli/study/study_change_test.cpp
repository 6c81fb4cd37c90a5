// `muster study importance|export|prune|delete|add` and orders to a tuner.
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

TEST_F(StudyCommands, ImportanceIsInSharesMostImportantFirst) {
  const Said said = say(study_importance);
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.out, StartsWith("parameter   importance"));
  for (const char* parameter : {"lr", "l1", "batch_size"})
    EXPECT_THAT(said.out, HasSubstr(parameter));
  EXPECT_THAT(said.err, HasSubstr("the best 1 of 2 trials that completed; so few say little"));
  const Json json = parse_json(say(study_importance, {"--json"}).out, "out");
  EXPECT_EQ(json["trials"], 2);
  double sum = 0, last = 1;
  for (const Json& share : json["importance"]) {
    EXPECT_LE(share["share"].get<double>(), last);
    last = share["share"];
    sum += last;
  }
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST_F(StudyCommands, ImportanceByFanovaNamesWhatItLeavesOut) {
  const Said said = say(study_importance, {"--by", "fanova"});
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.out, StartsWith("parameter   importance"));
  EXPECT_THAT(said.err, HasSubstr("a forest of 64 trees over 2 trials that completed"));
  const Json json = parse_json(say(study_importance, {"--by", "fanova", "--json"}).out, "out");
  EXPECT_EQ(json["evaluator"], "fanova");
  EXPECT_FALSE(json.contains("best_trials"));
  double sum = 0;
  for (const Json& share : json["importance"]) sum += share["share"].get<double>();
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_THAT(test::refusal_of([&] {
                say(study_importance, {"--by", "fanoav"});
              }),
              HasSubstr("ped-anova or fanova"));
}

TEST_F(StudyCommands, ImportanceNeedsTwoCompletedTrials) {
  std::filesystem::remove(file());
  const tune::Space space = test::small_space();
  tune::open_storage(file(), space, test::description_of(space));
  const Said said = say(study_importance);
  EXPECT_EQ(said.code, 1);
  EXPECT_THAT(said.out, IsEmpty());
  EXPECT_THAT(said.err, HasSubstr("has 0 trials that completed with a finite loss"));
}

TEST_F(StudyCommands, ExportWritesTextsToStdoutOrAFileAndFoldersToAFolder) {
  EXPECT_THAT(say(study_export).out, StartsWith("number,state,value,params_lr"));
  const auto csv = folder_.path() / "t.csv";
  const Said said = say(study_export, {"--output", csv.string()});
  EXPECT_THAT(said.out, IsEmpty());
  EXPECT_THAT(said.err, HasSubstr("3 trials in "));
  EXPECT_EQ(read_file(csv), say(study_export).out);
  for (const char* format : {"csv", "json", "ray"}) {
    EXPECT_THAT(test::refusal_of([&] {
                  say(study_export, {"--format", format, "--output", file().string()});
                }),
                HasSubstr("it is not what is exported"));
  }
  const Json json = parse_json(say(study_export, {"--format", "json"}).out, "out");
  EXPECT_EQ(json["trials"].size(), 3U);
  for (const char* format : {"ray", "tensorboard"}) {
    const auto folder = folder_.path() / format;
    say(study_export, {"--format", format, "--output", folder.string()});
    EXPECT_FALSE(std::filesystem::is_empty(folder));
    EXPECT_THAT(test::refusal_of([&] {
                  say(study_export, {"--format", format});
                }),
                HasSubstr("--output FOLDER"));
  }
}

TEST_F(StudyCommands, PruneKeepsWhatTheBestHasOfAnotherTrial) {
  namespace fs = std::filesystem;
  const fs::path trials = folder_.path() / "fashion-trials" / "copies";
  const fs::path donors = trials / "trial-0" / "checkpoints",
                 copys = trials / "trial-1" / "checkpoints";
  for (const fs::path& path : {donors / "a", donors / "copy-1" / "b", donors / "copy-1" / "c"}) {
    fs::create_directories(path.parent_path());
    write_file_atomic(path, "1234");
  }
  fs::create_directories(copys);
  write_file_atomic(copys / "own", "1234");
  const tune::Space space = test::small_space();
  test::EventMaker make(space);
  tune::AttemptStarted as_another{
      .attempt = 2, .from_checkpoint = donors / "copy-1" / "b", .donor = 0};
  tune::Reported worst{.t = 1}, best{.attempt = 2, .t = 1};
  worst.report = {.metrics = {{"loss", 2}}, .checkpoint = donors / "copy-1" / "c"};
  best.report = {.metrics = {{"loss", 1}}};
  const std::vector<tune::Event> events = {
      make.added(0),
      make.started(0),
      make.added(1),
      make.started(1),
      make.make(0, worst),
      make.make(1, tune::AttemptEnded{.then = tune::TrialState::kPaused}),
      make.make(1, as_another),
      make.make(1, best),
      make.make(0, tune::AttemptEnded{.then = tune::TrialState::kPruned}),
      make.make(1, tune::AttemptEnded{.attempt = 2})};
  tune::open_storage(file(), space, test::description_of(space, "copies"))->append(events);
  EXPECT_EQ(say(study_prune, {"--study", "copies"}).code, 0);
  EXPECT_TRUE(fs::exists(donors / "copy-1" / "b"));
  EXPECT_FALSE(fs::exists(donors / "copy-1" / "c"));
  EXPECT_FALSE(fs::exists(donors / "a"));
  EXPECT_TRUE(fs::exists(copys / "own"));
}

// delete_study() ends where `muster study delete` begins to remove: as if it was killed there.
TEST_F(StudyCommands, WhatADeletionThatWasKilledLeftGoesWithTheNextPruneOrDelete) {
  namespace fs = std::filesystem;
  const fs::path trials = folder_.path() / "fashion-trials";
  const auto leave = [&](const std::string& study) {
    tune::Space space = test::small_space();
    tune::open_storage(file(), space, test::description_of(space, study));
    fs::create_directories(trials / study / "trial-0/checkpoints");
    write_file_atomic(trials / study / "trial-0/checkpoints/c", "1234");
    const fs::path aside = tune::delete_study(file(), study, trials / study);
    fs::create_directory(trials / ".muster-deleted-empty1");  // killed before the move
    return aside;
  };
  fs::create_directories(trials);
  fs::create_directories(trials / ".deleted-abcdef");  // a stranger's
  const fs::path first = leave("a");
  EXPECT_TRUE(fs::exists(first / "a/trial-0/checkpoints/c"));
  EXPECT_THAT(say(study_prune, {"--dry-run"}).out, HasSubstr(first.string()));
  EXPECT_TRUE(fs::exists(first));
  EXPECT_THAT(say(study_prune).err, HasSubstr("2 folders, 4 B: removed"));
  EXPECT_FALSE(fs::exists(first));
  EXPECT_FALSE(fs::exists(trials / ".muster-deleted-empty1"));
  const fs::path second = leave("b");
  EXPECT_THAT(test::refusal_of([&] { say(study_delete, {"--study", "b"}); }), HasSubstr("\"b\""));
  EXPECT_FALSE(fs::exists(second));
  const fs::path third = leave("c");
  EXPECT_EQ(say(study_delete, {"--study", "fashion"}).code, 0);
  EXPECT_FALSE(fs::exists(third));
  EXPECT_THAT(test::refusal_of([&] { say(study_delete); }), HasSubstr("fashion.db has no study"));
  EXPECT_THAT(test::refusal_of([&] {
                say(study_delete, {"--study", "fashion"});
              }),
              HasSubstr("hint: it has none"));
  const fs::path last = leave("d");  // no study is in the file any more
  EXPECT_EQ(say(study_prune).code, 0);
  EXPECT_FALSE(fs::exists(last));
  EXPECT_TRUE(fs::exists(trials / ".deleted-abcdef"));
}

TEST_F(StudyCommands, SlipsOfTheHandAreMetWithTheNearestName) {
  EXPECT_THAT(test::refusal_of([&] {
                say(study_best, {"--study", "fashoin"});
              }),
              HasSubstr("did you mean \"fashion\"?"));
  EXPECT_THAT(test::refusal_of([&] {
                say(study_export, {"--format", "cvs"});
              }),
              HasSubstr("did you mean \"csv\"?"));
  EXPECT_THAT(test::refusal_of([&] { say(study_show, {"--jsno"}); }),
              HasSubstr("did you mean --json?"));
  EXPECT_THAT(test::refusal_of([&] { say(study_stop); }), HasSubstr("fashion"));
}

TEST_F(StudyCommands, AddPutsATrialInThatTheNextTunerRuns) {
  EXPECT_THAT(say(study_add, {"lr=0.01", "l1=64"}).err, HasSubstr("the next tuner"));
  EXPECT_EQ(parse_json(say(study_add, {"--json"}).out, "out"),
            (Json{{"study", "fashion"}, {"added", Json::object()}}));
  const auto waiting = tune::read_foreign_trials(file(), "fashion");
  ASSERT_THAT(waiting, SizeIs(2));
  EXPECT_EQ(waiting[0].state, tune::TrialState::kPending);
  tune::Space space = test::small_space();
  const auto storage = tune::open_storage(file(), space, test::description_of(space));
  storage->transact([](auto&&) { return std::span<const tune::Event>(); });
  const auto wanted = storage->waiting_trials();
  ASSERT_THAT(wanted, SizeIs(2));
  EXPECT_TRUE(wanted[0].added);
  EXPECT_EQ(wanted[0].params.at("l1"), tune::Value(64));
  EXPECT_THAT(wanted[1].params, IsEmpty());
}

TEST_F(StudyCommands, AddRefusesWhatIsNoPointOfTheSpace) {
  EXPECT_THAT(test::refusal_of([&] { say(study_add, {"lr=7"}); }), HasSubstr("lr"));
  EXPECT_THAT(test::refusal_of([&] { say(study_add, {"l2=64"}); }), HasSubstr("did you mean"));
  EXPECT_THAT(tune::read_foreign_trials(file(), "fashion"), IsEmpty());
}

TEST_F(StudyCommands, OrdersNeedATunerThatRuns) {
  for (const auto command : {study_stop, study_pause, study_continue})
    EXPECT_THAT(test::refusal_of([&] {
                  say(command, {"--trial", "2"});
                }),
                HasSubstr("none says that it runs it"));
}

}  // namespace
}  // namespace muster::cli
