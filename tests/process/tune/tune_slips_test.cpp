// Slips of those who use the guides: each is met before it costs a study.
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <signal.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/storage/sqlite.h"

#include "tests/process/tune/shell_study.h"

namespace muster::testing_process {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class TuneSlips : public ShellStudy {
 protected:
  const std::string report_ = program_ + "report ";
};

TEST_F(TuneSlips, ADryRunOfNothingPrintsNothingAndOfLessIsRefused) {
  const std::string file = study(kReport, 1);
  const Said nothing = say({"tune", file, "--dry-run", "0"});
  EXPECT_EQ(nothing.code, 0);
  EXPECT_THAT(nothing.out, IsEmpty());
  const Said less = say({"tune", file, "--dry-run", "-1"});
  EXPECT_EQ(less.code, 2);
  EXPECT_THAT(less.err, HasSubstr("--dry-run: a whole number of at least 0 (got -1)"));
  EXPECT_FALSE(fs::exists(storage()));
}

TEST_F(TuneSlips, ADryRunSaysWhatThisMachineHasNot) {
  const Said said = say({"tune", study(kReport, 1), "--dry-run", "1", "--cpu", "9999"});
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.out, HasSubstr("trial 0  lr="));
  EXPECT_THAT(said.err,
              AllOf(HasSubstr("on this machine the study would be refused"), HasSubstr("9999")));
}

// The command's check runs in a folder of its own, before the study has begun.
TEST_F(TuneSlips, ACheckThatIsEndedLeavesNothing) {
  const fs::path scratch = folder_.path() / "scratch", slow = folder_.path() / "muster";
  fs::create_directory(scratch);
  write_file_atomic(slow, "#!/bin/sh\nexec sleep 1000\n");
  fs::permissions(slow, fs::perms::owner_all);
  for (const int signal : {SIGTERM, SIGINT}) {
    Launched program({"tune",
                      "--name",
                      "slow",
                      "--metric",
                      "loss",
                      "--mode",
                      "min",
                      "--storage",
                      storage(),
                      "--param",
                      "lr=uniform(0,1)",
                      "--",
                      slow,
                      "train",
                      "--lr",
                      "{lr}"},
                     {.environment = {concat("TMPDIR=", scratch.string())}});
    while (fs::is_empty(scratch) && is_alive(program.pid()))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    program.signal(signal);
    EXPECT_EQ(program.wait().signal, signal) << program.err();
    EXPECT_TRUE(fs::is_empty(scratch));
    EXPECT_TRUE(program.nothing_left());
  }
}

TEST_F(TuneSlips, AnEmptyTextIsNoDefault) {
  const std::string file = study(kReport, 1);
  for (const char* flag : {"--scheduler", "--searcher", "--name", "--storage", "--scope"}) {
    const Said said = say({"tune", file, flag, ""});
    EXPECT_EQ(said.code, 2) << flag;
    EXPECT_THAT(said.err, HasSubstr(concat(flag, ": it is not empty")));
  }
}

TEST_F(TuneSlips, ARuleToStopThatChangedIsRefusedWithTheDifference) {
  EXPECT_EQ(say({"tune", study(kReport, 1)}).code, 0);
  const Said said = say({"tune", study(kReport, 2, "stop = [\"loss <= 0.1\"]")});
  EXPECT_EQ(said.code, 2);
  EXPECT_THAT(said.err, AllOf(HasSubstr("- stop = []"), HasSubstr("+ stop = [\"loss <= 0.1\"]")));
  EXPECT_EQ(say({"tune", study(kReport, 2)}).code, 0);
}

TEST_F(TuneSlips, AMisspeltConstraintIsSaidAtTheFirstReportAndNamedAtTheEnd) {
  const std::string file = study("echo '[tune-metric]: {\"loss\": 1, \"peak_mib\": 2}'",
                                 1,
                                 "constraints = [\"peak_mb <= 900\"]");
  const Said said = say({"tune", file});
  EXPECT_EQ(said.code, 1);
  EXPECT_THAT(said.err,
              AllOf(HasSubstr("the first report of trial 0 has no peak_mb, which a constraint"),
                    HasSubstr("did you mean \"peak_mib\"?"),
                    HasSubstr("ended without a number of peak_mb; it reported loss, peak_mib")));
}

TEST_F(TuneSlips, AnEndWithoutAResultIsRefusedAndTheTrialGoesOn) {
  const std::string file = study(kReport, 1);
  EXPECT_EQ(say({"study", "ask", file}).code, 0);
  const Said said = say({"study", "tell", file, "0", "--end"});
  EXPECT_EQ(said.code, 2);
  EXPECT_THAT(said.err, HasSubstr("loss=VALUE --end, or --failed WHY"));
  EXPECT_EQ(say({"study", "tell", file, "0", "loss=1", "--end"}).code, 0);
  EXPECT_EQ(replayed().trials()[0].state, tune::TrialState::kComplete);
}

TEST_F(TuneSlips, TellingMakesNoStudy) {
  const std::string file = study(kReport, 1);
  const fs::path other = storage().parent_path() / "other.db";
  const Said said = say({"study", "tell", file, "0", "loss=1", "--storage", other.string()});
  EXPECT_EQ(said.code, 2);
  EXPECT_THAT(said.err, HasSubstr(concat("no such file: ", other.string())));
  EXPECT_FALSE(fs::exists(other));
}

TEST_F(TuneSlips, WhoAsksWhileAllTrialsAreOutIsToldSo) {
  const std::string file = study(kReport, 1);
  EXPECT_EQ(say({"study", "ask", file}).code, 0);
  const Said said = say({"study", "ask", file});
  EXPECT_EQ(said.code, 1);
  EXPECT_EQ(said.out, "");
  EXPECT_THAT(said.err, HasSubstr("nothing to run now: more may come when trials"));
}

TEST_F(TuneSlips, AStepThatIsToldAsAMetricIsRefusedWithTheOptionForIt) {
  const std::string file = study(kReport, 1);
  EXPECT_EQ(say({"study", "ask", file}).code, 0);
  const Said said = say({"study", "tell", file, "0", "loss=1", "step=1"});
  EXPECT_EQ(said.code, 2);
  EXPECT_THAT(said.err,
              AllOf(HasSubstr("step is no metric of `muster study tell`: it is an option (got "
                              "step=1)"),
                    HasSubstr("--step N")));
  EXPECT_EQ(replayed().trials()[0].reports, 0) << "nothing of it is stored";
  EXPECT_EQ(say({"study", "tell", file, "0", "loss=1", "--step", "4"}).code, 0);
  EXPECT_EQ(replayed().trials()[0].last_t, 4);
}

// More events than lie between two outlines: how a trial has ended is read from the log all the same.
TEST_F(TuneSlips, OfATrialThatIsLongOverItIsSaidHowItEnded) {
  const std::string file = study(kReport, 100);
  EXPECT_EQ(say({"tune", file}).code, 0);
  tune::Database database(storage(), tune::Database::Access::kWrite);
  auto outlines = database.prepare("SELECT count(*) FROM muster_outlines WHERE event > 8");
  ASSERT_TRUE(outlines.step());
  EXPECT_EQ(outlines.integer(0), 1) << "the tuner leaves one for who asks";
  outlines.reset();
  const Said said = say({"study", "tell", file, "1", "loss=1"});
  EXPECT_EQ(said.code, 2);
  EXPECT_THAT(said.err, HasSubstr("nothing can be told of trial 1"));
  EXPECT_THAT(said.err, HasSubstr("(got it is COMPLETE)"));
  const Said none = say({"study", "ask", file});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("nothing to run: the study is over"));
}

TEST_F(TuneSlips, AMetricThatIsCalledAsAFieldOfTheAnswerHidesNone) {
  for (const std::string metric : {"params", "number", "value", "metric", "done", "config"}) {
    const std::string file = study(concat("echo '[tune-metric]: {\"", metric, "\": 0.25}'"), 1);
    std::string text = read_file(file);
    text.replace(text.find("metric = \"loss\""), 15, concat("metric = \"", metric, '"'));
    text.replace(text.find("name = \"study\""), 14, concat("name = \"of ", metric, '"'));
    write_file_atomic(file, concat("storage = \"study.db\"\n", text));
    const Said said = say({"tune", file, "--json", "--ray-files"});
    ASSERT_EQ(said.code, 0) << said.err;
    const Json best = parse_json(said.out, "out")["best"];
    EXPECT_EQ(best["number"], 0) << said.out;
    EXPECT_EQ(best["metric"], metric) << said.out;
    EXPECT_EQ(best["value"], 0.25) << said.out;
    EXPECT_TRUE(best["params"].is_object() && best["params"].contains("lr")) << said.out;
    const Said shown =
        say({"study", "best", storage().string(), "--study", concat("of ", metric), "--json"});
    const Json stored = parse_json(shown.out, "out");
    EXPECT_TRUE(stored["params"].contains("lr")) << shown.out;
    EXPECT_EQ(stored["value"], 0.25) << shown.out;
  }
}

TEST_F(TuneSlips, OfATrialThatWasAskedForThereIsNoFolderToSee) {
  const std::string file = study("exit 1", 2);
  EXPECT_EQ(say({"study", "ask", file}).code, 0);
  EXPECT_EQ(say({"study", "tell", file, "0", "--failed", "no"}).code, 0);
  const Said said = say({"tune", file});
  EXPECT_THAT(said.err, AllOf(HasSubstr("trial-1"), Not(HasSubstr("study-trials/study/trial-0"))));
}

TEST_F(TuneSlips, JsonOfSeveralObjectivesHasTheHypervolume) {
  const std::string file = study(
      "echo \"[tune-metric]: {\\\"loss\\\": $MUSTER_TRIAL_ID, \\\"s\\\": $((1 - "
      "$MUSTER_TRIAL_ID))}\"",
      2);
  std::string text = read_file(file);
  text.replace(
      text.find("metric = \"loss\"\nmode = \"min\""), 28, "objectives = [\"min loss\", \"min s\"]");
  write_file_atomic(file, text);
  const Said said = say({"tune", file, "--json"});
  EXPECT_EQ(said.code, 0) << said.err;
  for (const std::string& out : {said.out,
                                 say({"study", "best", storage().string(), "--json"}).out,
                                 say({"study", "show", storage().string(), "--json"}).out}) {
    const Json json = parse_json(out, "out");
    EXPECT_EQ(json["hypervolume"], 0.0) << out;
    EXPECT_EQ(json["hypervolume_from"], (Json{{"loss", 1.0}, {"s", 1.0}})) << out;
  }
}

TEST_F(TuneSlips, WhoChangesALockedStudySaysThatItWaits) {
  EXPECT_EQ(say({"tune", study("exit 1", 1)}).code, 1);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"study", "add", storage().string(), "lr=0.5"},
        {"study", "restart", storage().string()},
        {"study", "delete", storage().string()}}) {
    tune::Database other(storage(), tune::Database::Access::kWrite);
    other.run("BEGIN EXCLUSIVE");
    Launched program(words);
    EXPECT_TRUE(program.wait_for("it is locked by another program")) << words[1];
    other.run("COMMIT");
    EXPECT_EQ(program.wait().code, 0) << program.err();
  }
}

TEST_F(TuneSlips, HowLongALockWasWaitedForIsSaidInTheEnd) {
  const std::string file = study(kReport, 1, "storage_patience = \"2s\"");
  EXPECT_EQ(say({"tune", file}).code, 0);
  tune::Database other(storage(), tune::Database::Access::kWrite);
  other.run("BEGIN EXCLUSIVE");
  const Said said = say({"tune", file});
  EXPECT_EQ(said.code, 1);
  EXPECT_THAT(said.err, HasSubstr("muster: error: cannot write"));
  EXPECT_THAT(said.err, HasSubstr("for more than 2 s by now"));
}

}  // namespace
}  // namespace muster::testing_process
