// One study and several processes: a tuner, others who ask, and what none of them may wait for.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include <gmock/gmock.h>

#include "muster/base/json.h"
#include "muster/tune/storage/sqlite.h"

#include "tests/process/tune/shell_study.h"

namespace muster::testing_process {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using SharedStudy = ShellStudy;

TEST_F(SharedStudy, ATrialThatWasAskedForDoesNotKeepTheTuner) {
  const std::string file = study(kReport, 2);
  EXPECT_THAT(say({"study", "ask", file}).out, HasSubstr("\"number\":0"));
  const Said tuned = say({"tune", file});
  EXPECT_EQ(tuned.code, 0);
  EXPECT_THAT(tuned.err, HasSubstr("trial 0 is with others, who asked"));
  EXPECT_EQ(say({"study", "tell", file, "0", "loss=0.5", "--end"}).code, 0);
  EXPECT_THAT(say({"tune", file}).out, HasSubstr("best loss 0.5 trial 0"));
  const Said late = say({"study", "tell", file, "0", "loss=0.1", "--end"});
  EXPECT_EQ(late.code, 2);
  EXPECT_THAT(late.err, HasSubstr("nothing can be told of trial 0"));
}

// Its numbers begin anew with it.
TEST_F(SharedStudy, NobodyTellsOfATrialOfAStudyThatWasDeletedAndMadeAnew) {
  const std::string file = study(kReport, 2);
  const auto ask = [&] {
    const Json asked = parse_json(say({"study", "ask", file}).out, "what ask prints");
    EXPECT_EQ(asked.at("number"), 0);
    return json_text(asked.at("study_began"));
  };
  const std::string first = ask();
  EXPECT_EQ(say({"study", "tell", file, "0", "loss=1", "--study-began", first}).code, 0);
  EXPECT_EQ(say({"study", "delete", storage().string()}).code, 0);
  const std::string second = ask();
  const Said stale = say({"study", "tell", file, "0", "loss=0", "--end", "--study-began", first});
  EXPECT_EQ(stale.code, 2);
  EXPECT_THAT(stale.err, AllOf(HasSubstr(first), HasSubstr(second), HasSubstr("made anew")));
  // A number that JSON writes with another last digit than std::to_chars.
  const std::string other = "1795845754.9087904";
  EXPECT_THAT(say({"study", "tell", file, "0", "loss=0", "--study-began", other}).err,
              HasSubstr("began at " + other));
  EXPECT_EQ(replayed().trials()[0].reports, 0);
  EXPECT_EQ(say({"study", "tell", file, "0", "loss=0.5", "--end", "--study-began", second}).code,
            0);
  EXPECT_EQ(replayed().trials()[0].last_metric, 0.5);
}

TEST_F(SharedStudy, OthersAskAndTellBesideATunerAndNoneIsRefused) {
  constexpr int kShells = 4, kTrials = 15;
  const std::string file = study(kReport, -1);
  Launched tuner({"tune", file});
  ASSERT_TRUE(tuner.wait_for("trial 0 started"));
  const std::string line =
      concat("for i in $(seq ",
             kTrials,
             "); do n=$(",
             program_,
             "study ask '",
             file,
             "' | sed 's/.*\"number\":\\([0-9]*\\).*/\\1/') && [ -n \"$n\" ] && ",
             program_,
             "study tell '",
             file,
             "' $n loss=2 --step 1 && ",
             program_,
             "study tell '",
             file,
             "' $n loss=0.5 --step 2 --end || exit 1; done > /dev/null");
  std::vector<int> codes(kShells, -1);
  {
    std::vector<std::jthread> shells;
    for (int& code : codes) shells.emplace_back([&] { code = std::system(line.c_str()); });
  }
  EXPECT_THAT(codes, ::testing::Each(0));
  tuner.signal(SIGINT);
  EXPECT_EQ(tuner.wait().code, 130) << tuner.err();
  const tune::StudyCore core = replayed();
  int64_t told = 0;
  for (const tune::Trial& trial : core.trials()) {
    if (trial.last_metric == 0.5 && trial.state == tune::TrialState::kComplete) ++told;
  }
  EXPECT_EQ(told, kShells * kTrials);
  EXPECT_GT(static_cast<int64_t>(core.trials().size()), told);
}

TEST_F(SharedStudy, OfThoseWhoAskAtOnceOneMakesTheStudyAndAllGetATrial) {
  const std::string file = study(kReport, -1);
  for (int round = 0; round < 5; ++round) {
    const std::string line = concat("for i in 1 2 3 4 5 6; do { ",
                                    program_,
                                    "study ask '",
                                    file,
                                    "' > /dev/null || touch '",
                                    (folder_.path() / "refused").string(),
                                    "'; } & done; wait");
    EXPECT_EQ(std::system(line.c_str()), 0);
    EXPECT_FALSE(fs::exists(folder_.path() / "refused"));
    EXPECT_EQ(replayed().trials().size(), 6U);
    fs::remove(storage());
  }
}

TEST_F(SharedStudy, NobodyTellsOfATrialThatTheTunerRuns) {
  const std::string file = study(concat(kReport, "; sleep 100"), 1);
  Launched tuner({"tune", file});
  ASSERT_TRUE(tuner.wait_for("trial 0 started"));
  const Said said = say({"study", "tell", file, "0", "--failed", "no"});
  EXPECT_EQ(said.code, 2);
  EXPECT_THAT(said.err, HasSubstr("it is run by the tuner"));
  tuner.signal(SIGINT);
  EXPECT_EQ(tuner.wait().code, 130);
}

TEST_F(SharedStudy, CtrlCEndsATunerThatWaitsForALockedFile) {
  const std::string file =
      study("while ! [ -e go ]; do sleep 0.01; done; " + std::string(kReport) + "; sleep 100",
            1,
            "storage_patience = \"10m\"");
  Launched tuner({"tune", file});
  ASSERT_TRUE(tuner.wait_for("trial 0 started"));
  {
    tune::Database other(storage(), tune::Database::Access::kWrite);
    other.run("BEGIN IMMEDIATE");
    write_file_atomic(folder_.path() / "go", "");
    ASSERT_TRUE(tuner.wait_for("it is locked by another program"));
    tuner.signal(SIGINT);
    EXPECT_EQ(tuner.wait().code, 130) << tuner.err();
    other.run("COMMIT");
  }
  EXPECT_TRUE(tuner.nothing_left());
  EXPECT_THAT(tuner.err(),
              AllOf(HasSubstr("SIGINT: stopping; once more kills"),
                    HasSubstr("nothing more can be stored"),
                    HasSubstr("\nhint: trials wait")));
  study(kReport, 1, "storage_patience = \"10m\"");
  EXPECT_EQ(say({"tune", file}).code, 0);
  EXPECT_EQ(replayed().trials()[0].state, tune::TrialState::kComplete);
}

TEST_F(SharedStudy, AFileThatIsLockedForAWhileIsWaitedFor) {
  const std::string file =
      study("while ! [ -e go ]; do sleep 0.01; done; " + std::string(kReport), 1);
  Launched tuner({"tune", file});
  ASSERT_TRUE(tuner.wait_for("trial 0 started"));
  {
    tune::Database other(storage(), tune::Database::Access::kWrite);
    other.run("BEGIN IMMEDIATE");
    write_file_atomic(folder_.path() / "go", "");
    ASSERT_TRUE(tuner.wait_for("it is locked by another program"));
    other.run("COMMIT");
  }
  EXPECT_EQ(tuner.wait().code, 0) << tuner.err();
  EXPECT_EQ(replayed().trials()[0].reports, 1);
}

TEST_F(SharedStudy, TheTunerAndStudyBestNameTheSameTrialAlsoIfOptunaMadeIt) {
  const std::string file = study(kReport, 3);
  EXPECT_THAT(say({"tune", file}).out, HasSubstr("best loss 1 trial 0 "));
  EXPECT_THAT(say({"study", "best", storage().string()}).out, HasSubstr("trial 0  COMPLETE"));
  {
    tune::Database database(storage(), tune::Database::Access::kWrite);
    database.run(
        "INSERT INTO trials (number, study_id, state) SELECT 3, study_id, 'COMPLETE' FROM studies");
    database
        .prepare(
            "INSERT INTO trial_values (trial_id, objective, value, value_type) "
            "VALUES (?, 0, 0.25, 'FINITE')")
        .bind(1, database.last_rowid())
        .run();
  }
  EXPECT_THAT(say({"tune", file}).out, HasSubstr("best loss 0.25 trial o3"));
  EXPECT_THAT(say({"study", "best", storage().string()}).out, HasSubstr("trial o3  COMPLETE"));
}

// ---- What is written beside the storage ----

TEST_F(SharedStudy, ASecondTunerThatIsRefusedLeavesTheFilesOfTheFirstAlone) {
  const std::string file = study("while ! [ -e go ]; do sleep 0.01; done", 1, "ray_files = true");
  Launched first({"tune", file});
  ASSERT_TRUE(first.wait_for("trial 0 started"));
  const fs::path ray = folder_.path() / "study-trials" / "study" / "ray";
  const auto written = fs::last_write_time(fs::directory_iterator(ray)->path() / "params.json");
  EXPECT_EQ(say({"tune", file}).code, 2);
  EXPECT_EQ(fs::last_write_time(fs::directory_iterator(ray)->path() / "params.json"), written);
  first.signal(SIGINT);
  EXPECT_EQ(first.wait().code, 130);
}

TEST_F(SharedStudy, ASinkThatCannotBeWrittenEndsAloneAndTheStudyGoesOn) {
  const std::string file = study(
      "while ! [ -e go ]; do sleep 0.01; done; " + std::string(kReport), 3, "ray_files = true");
  Launched tuner({"tune", file});
  ASSERT_TRUE(tuner.wait_for("trial 0 started"));
  const fs::path ray = folder_.path() / "study-trials" / "study" / "ray";
  fs::rename(ray, ray.string() + "-away");
  write_file_atomic(ray, "a file where the folder was");
  write_file_atomic(folder_.path() / "go", "");
  EXPECT_EQ(tuner.wait().code, 0) << tuner.err();
  EXPECT_THAT(tuner.err(), HasSubstr("Ray's files end here"));
  EXPECT_EQ(replayed().trials().size(), 3U);
}

// ---- For a script ----

TEST_F(SharedStudy, WithJsonAnErrorIsAnObjectToo) {
  const auto error_of = [](const Said& said) { return parse_json(said.err, "stderr").at("error"); };
  const Said missing = say({"study", "show", storage().string(), "--json"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_EQ(missing.out, "");
  EXPECT_EQ(error_of(missing).at("kind"), "usage");
  EXPECT_THAT(error_of(missing).at("refused").get<std::string>(), HasSubstr("no such file"));
  const std::string file = study(kReport, 1);
  EXPECT_EQ(say({"study", "ask", file}).code, 0);
  EXPECT_THAT(
      error_of(say({"study", "best", storage().string(), "--json"})).at("text").get<std::string>(),
      HasSubstr("has no trial with a number for loss yet"));
  EXPECT_EQ(error_of(say({"study", "tell", file, "7", "loss=1", "--json"})).at("refused"),
            "nothing can be told of trial 7");
}

// ---- One typo ----

TEST_F(SharedStudy, ACommandThatCannotRunIsRefusedBeforeTheFirstTrialAndByADryRun) {
  const auto refused = [&](const std::string& command, const std::string& why) {
    study("", 200);
    const std::string text = read_file(file());
    const std::string old = "command = [\"sh\", \"train.sh\"]";
    const size_t at = text.find(old);
    write_file_atomic(file(),
                      text.substr(0, at) + "command = " + command + text.substr(at + old.size()));
    for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--dry-run", "1"}}) {
      std::vector<std::string> words = {"tune", file().string()};
      words.insert(words.end(), more.begin(), more.end());
      const Said said = say(words);
      EXPECT_EQ(said.code, 2) << command;
      EXPECT_THAT(said.err, HasSubstr(why));
      EXPECT_FALSE(fs::exists(storage()));
    }
  };
  refused("[\"./nope.sh\"]", "nope.sh");
  refused("[\"./study.toml\"]", "study.toml");
  refused("[\"no-such-program-anywhere\", \"{lr}\"]", "no-such-program-anywhere");
  refused("[\"sh\", \"nope.sh\", \"{lr}\"]", "no such file: nope.sh");
  refused(concat("[\"", test::program_path("muster"), "\", \"trian\"]"), "did you mean \"train\"?");
}

TEST_F(SharedStudy, WhatTheFileAsksForAndIsNotThereIsRefusedWithItsLineBeforeAnythingIsStored) {
  const auto refused = [&](const std::string& line, const std::vector<std::string>& flags = {}) {
    std::vector<std::string> words = {"tune", study("", 200, line)};
    words.insert(words.end(), flags.begin(), flags.end());
    const Said said = say(words);
    EXPECT_EQ(said.code, 2) << said.err;
    EXPECT_FALSE(fs::exists(storage()));
    return said.err;
  };
  // `line` is the eighth of the file.
  const std::string place = concat(file().string(), ":8:1: ");
  EXPECT_THAT(refused("executor = \"loacl\""), HasSubstr(place));
  EXPECT_THAT(refused("searcher = \"randon\""), HasSubstr(place));
  EXPECT_THAT(refused("machine = {custom = {a = 1}}\nscheduler = \"asha:max_t=0\""),
              HasSubstr(concat(file().string(), ":9:1: scheduler asha")));
  // What a flag says is not the file's.
  EXPECT_THAT(refused("searcher = \"random\"", {"--searcher", "randon"}),
              AllOf(HasSubstr("randon"), Not(HasSubstr(place))));
  const std::string too_much = refused("", {"--cpu", "100000"});
  EXPECT_THAT(too_much, AllOf(HasSubstr("this machine has"), Not(HasSubstr("study.toml:"))));
}

TEST_F(SharedStudy, AStudyWithoutEndWhoseCommandFailsEnds) {
  const Said said = say({"tune", study("exit 3", -1)});
  EXPECT_EQ(said.code, 1);
  EXPECT_THAT(said.err, HasSubstr("given up: 10 trials failed without one report"));
}

TEST_F(SharedStudy, FailFastEndsAtTheFirstFailureAndFailedTrialsAreRunOnceMoreOnRequest) {
  const std::string file = study("[ -e fixed ] || exit 3\n" + std::string(kReport), 4);
  const Said said = say({"tune", file, "--fail-fast"});
  EXPECT_EQ(said.code, 1);
  EXPECT_THAT(said.err, HasSubstr("given up: trial 0 failed (crash): exit code 3"));
  EXPECT_EQ(replayed().trials().size(), 1U);
  write_file_atomic(folder_.path() / "fixed", "");
  EXPECT_THAT(say({"study", "restart", storage().string()}).err, HasSubstr("once more: trial 0\n"));
  EXPECT_THAT(say({"study", "restart", storage().string()}).err, HasSubstr("no trial is to be"));
  EXPECT_EQ(say({"tune", file}).code, 0);
  const tune::StudyCore core = replayed();
  ASSERT_EQ(core.trials().size(), 5U);  // the four, and one once more
  EXPECT_EQ(core.trials()[1].values, core.trials()[0].values);
  EXPECT_EQ(core.trials()[1].state, tune::TrialState::kComplete);
  EXPECT_THAT(say({"study", "restart", storage().string(), "--trial", "1"}).err,
              HasSubstr("trial 1 cannot be restarted"));
}

TEST_F(SharedStudy, ANewStudyFindsNothingOfADeletedOne) {
  const std::string line =
      "ls \"$MUSTER_CHECKPOINT_DIR\" >> found\n"
      "echo weights > \"$MUSTER_CHECKPOINT_DIR/last\"\n" +
      std::string(kReport);
  const std::string file = study(line, 2);
  const fs::path trials = folder_.path() / "study-trials" / "study";
  EXPECT_EQ(say({"tune", file}).code, 0);
  fs::remove(storage());  // by hand, as people do
  EXPECT_EQ(say({"tune", file}).code, 0);
  EXPECT_EQ(read_file(folder_.path() / "found"), "");
  EXPECT_TRUE(fs::exists(trials / "trial-0.old-1" / "checkpoints" / "last"));  // but not lost
  EXPECT_THAT(say({"study", "prune", storage().string(), "--dry-run"}).out,
              AllOf(HasSubstr("trial-1/checkpoints"),
                    HasSubstr("trial-0.old-1"),
                    Not(HasSubstr("trial-0/checkpoints"))));
  EXPECT_EQ(say({"study", "prune", storage().string()}).code, 0);
  EXPECT_FALSE(fs::exists(trials / "trial-0.old-1"));
  EXPECT_FALSE(fs::exists(trials / "trial-1" / "checkpoints"));
  EXPECT_TRUE(fs::exists(trials / "trial-0" / "checkpoints" / "last"));  // the best
  EXPECT_EQ(say({"study", "delete", storage().string()}).code, 0);
  EXPECT_FALSE(fs::exists(trials));
  EXPECT_THAT(say({"study", "list", storage().string(), "--json"}).out, HasSubstr("[]"));
}

TEST_F(SharedStudy, ATunerWhoseStudyIsDeletedEndsWithOneErrorAndLeavesNothing) {
  const std::string file = study(concat(kReport, "; sleep 100"), 1);
  Launched tuner({"tune", file});
  ASSERT_TRUE(tuner.wait_for("trial 0 started"));
  {
    tune::Database optuna(storage(), tune::Database::Access::kWrite);  // asks no lock of ours
    optuna.run("DELETE FROM studies");
  }
  EXPECT_EQ(tuner.wait().code, 2) << tuner.err();
  EXPECT_THAT(tuner.err(), HasSubstr("error: study \"study\" is gone: it was deleted from"));
  EXPECT_TRUE(tuner.nothing_left());
}

TEST_F(SharedStudy, WhoAsksHearsThatTheStudyIsGivenUpAndARestartBeginsAnew) {
  const std::string file = study(kReport, -1, "[failures]\nfail_fast = true");
  EXPECT_EQ(say({"study", "ask", file}).code, 0);
  EXPECT_EQ(say({"study", "tell", file, "0", "--failed", "no such data"}).code, 0);
  for (int i = 0; i < 2; ++i) {
    const Said said = say({"study", "ask", file});
    EXPECT_EQ(said.code, 1);
    EXPECT_EQ(said.out, "");
    EXPECT_THAT(said.err,
                AllOf(HasSubstr("given up: trial 0 failed (crash): no such data"),
                      HasSubstr("muster study restart " + storage().string())));
  }
  EXPECT_EQ(say({"study", "restart", storage().string()}).code, 0);
  EXPECT_THAT(say({"study", "ask", file}).out, HasSubstr("\"number\":1"));
  EXPECT_EQ(replayed().trials()[1].values, replayed().trials()[0].values);
}

TEST_F(SharedStudy, ATunerIsGivenUpByTheFailuresOfTrialsThatOthersAskedFor) {
  const std::string file =
      study("while :; do sleep 0.01; done", -1, "[failures]\nfail_fast = true");
  Launched tuner({"tune", file});
  ASSERT_TRUE(tuner.wait_for("trial 0 started"));
  EXPECT_THAT(say({"study", "ask", file}).out, HasSubstr("\"number\":1"));
  EXPECT_EQ(say({"study", "tell", file, "1", "--failed", "no such data"}).code, 0);
  EXPECT_EQ(tuner.wait().code, 1) << tuner.err();
  EXPECT_THAT(tuner.err(), HasSubstr("given up: trial 1 failed (crash): no such data"));
  EXPECT_TRUE(tuner.nothing_left());
}

TEST_F(SharedStudy, AStudyThatIsRunIsNotDeleted) {
  const std::string file = study(concat(kReport, "; sleep 100"), 1);
  Launched tuner({"tune", file});
  ASSERT_TRUE(tuner.wait_for("trial 0 started"));
  EXPECT_EQ(say({"study", "delete", storage().string()}).code, 2);
  tuner.signal(SIGINT);
  EXPECT_EQ(tuner.wait().code, 130);
  EXPECT_EQ(replayed().trials().size(), 1U);
}

}  // namespace
}  // namespace muster::testing_process
