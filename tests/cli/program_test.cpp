// The program as a user meets it: help, suggestions, exit codes, and which stream says what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/program/line/shell_word.h"

#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_process::Launched;

class Help : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Help, GoesToStdoutWithExamplesWithinEightyColumns) {
  Launched muster(GetParam());
  EXPECT_EQ(muster.wait().code, 0);
  EXPECT_THAT(muster.err(), IsEmpty());
  EXPECT_THAT(muster.out(), HasSubstr("Usage: muster"));
  EXPECT_THAT(muster.out(), ::testing::ContainsRegex("\nExamples?(, in a trial.s script)?:\n"));
  for (const std::string& line : split(muster.out(), '\n'))
    EXPECT_LE(display_width(line), 80U) << line;
}

INSTANTIATE_TEST_SUITE_P(Commands,
                         Help,
                         ::testing::Values(std::vector<std::string>{"--help"},
                                           std::vector<std::string>{"-h"},
                                           std::vector<std::string>{"run", "--help"},
                                           std::vector<std::string>{"list", "--help"},
                                           std::vector<std::string>{"help", "run"},
                                           std::vector<std::string>{"completion", "--help"},
                                           std::vector<std::string>{"man", "--help"},
                                           std::vector<std::string>{"report", "--help"},
                                           std::vector<std::string>{"doctor", "--help"},
                                           std::vector<std::string>{"tune", "--help"},
                                           std::vector<std::string>{"train", "--help"},
                                           std::vector<std::string>{"help", "train"},
                                           std::vector<std::string>{"study", "--help"},
                                           std::vector<std::string>{"gpu", "--help"},
                                           std::vector<std::string>{"new", "--help"},
                                           std::vector<std::string>{"data", "--help"},
                                           std::vector<std::string>{"data", "info", "--help"},
                                           std::vector<std::string>{"data", "preview", "--help"},
                                           std::vector<std::string>{"evaluate", "--help"},
                                           std::vector<std::string>{"predict", "--help"},
                                           std::vector<std::string>{"pipeline", "--help"},
                                           std::vector<std::string>{"study", "plot", "--help"},
                                           std::vector<std::string>{
                                               "study", "importance", "--help"},
                                           std::vector<std::string>{"study", "watch", "--help"},
                                           std::vector<std::string>{"study", "add", "--help"},
                                           std::vector<std::string>{"study", "restart", "--help"},
                                           std::vector<std::string>{"study", "list", "--help"},
                                           std::vector<std::string>{"study", "show", "--help"},
                                           std::vector<std::string>{"study", "best", "--help"},
                                           std::vector<std::string>{"study", "export", "--help"},
                                           std::vector<std::string>{"study", "ask", "--help"},
                                           std::vector<std::string>{"study", "tell", "--help"},
                                           std::vector<std::string>{"help", "study", "stop"}));

TEST(Program, FailsIfItsOutputCannotBeWritten) {
  // The name of the program itself, as the shell's command line needs it.
  const std::string muster = program::shell_word(test::program_path("muster"));
  Launched full({"run", "--no-prefix", "--", "sh", "-c", muster + " completion bash > /dev/full"});
  EXPECT_EQ(full.wait().code, 1);
  EXPECT_THAT(full.err(), HasSubstr("cannot write to stdout: No space left on device"));
  Launched gone({"run", "--no-prefix", "--", "sh", "-c", muster + " completion bash | true"});
  EXPECT_EQ(gone.wait().code, 0);
}

struct Refused {
  std::vector<std::string> args;
  std::string says;
};

class WrongUse : public ::testing::TestWithParam<Refused> {};

TEST_P(WrongUse, ExitsWithTwoAndSaysWhyOnStderr) {
  Launched muster(GetParam().args);
  EXPECT_EQ(muster.wait().code, 2);
  EXPECT_THAT(muster.out(), IsEmpty());
  EXPECT_THAT(muster.err(), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Commands,
    WrongUse,
    ::testing::Values(Refused{{}, "Usage: muster COMMAND"},
                      Refused{{"trian"}, "did you mean \"train\"?"},
                      Refused{{"--nproc"}, "a command comes first"},
                      Refused{{"run"}, "no program to run"},
                      Refused{{"run", "--nproc-per-node", "0", "--", "true"}, "--nproc-per-node 0"},
                      Refused{{"run", "--nproc", "2", "--", "true"}, "unknown flag --nproc"},
                      Refused{{"run", "--", "no-such-program"}, "program not found"},
                      Refused{{"run", "--launcher", "lokal", "--", "true"},
                              "did you mean \"local\"?"},
                      Refused{{"list", "lanchers"}, "did you mean \"launchers\"?"},
                      Refused{{"list", "--jsno"}, "did you mean --json?"},
                      Refused{{"help", "trian"}, "did you mean \"train\"?"},
                      Refused{{"list", "hooks"}, "did you mean \"comm-hooks\"?"},
                      Refused{{"pipeline"}, "it is not said which schedule"},
                      Refused{{"pipeline", "1f2b"}, "did you mean \"1f1b\"?"},
                      Refused{{"pipeline", "zbv", "--stages", "4"}, "each rank has 2 stages"},
                      Refused{{"man", "trian"}, "did you mean \"train\"?"},
                      Refused{{"completion"}, "muster completion without bash|zsh|fish"}));

TEST(List, ShowsTheKindsAndTheLaunchers) {
  Launched kinds({"list"});
  EXPECT_EQ(kinds.wait().code, 0);
  EXPECT_THAT(kinds.out(), HasSubstr("launchers"));
  Launched launchers({"list", "launchers"});
  EXPECT_EQ(launchers.wait().code, 0);
  EXPECT_THAT(launchers.out(), HasSubstr("local  ranks are processes of this machine"));
}

TEST(List, ShowsWhatAStudyCanBeMadeOf) {
  for (const auto& [kind, expected] :
       {std::pair("schedulers", "max_t=int: the most that a trial is trained [100]"),
        std::pair("searchers", "random_then_grid"),
        std::pair("executors", "local")}) {
    Launched list({"list", kind});
    EXPECT_EQ(list.wait().code, 0);
    EXPECT_THAT(list.out(), HasSubstr(expected));
  }
}

TEST(List, ShowsPipelineSchedules) {
  Launched list({"list", "schedules"});
  EXPECT_EQ(list.wait().code, 0);
  EXPECT_THAT(list.out(), HasSubstr("1f1b         one forward, one backward"));
  EXPECT_THAT(list.out(), HasSubstr("eager=bool"));
}

TEST(Pipeline, DrawsASchedule) {
  Launched muster({"pipeline", "1f1b", "--ranks", "2", "--micro-batches", "3"});
  EXPECT_EQ(muster.wait().code, 0);
  EXPECT_EQ(muster.out(),
            R"(1f1b, 2 stages on 2 ranks, 3 micro-batches: step 12, bubble 25.0 %, idle 3
rank 0  F0 F1 ......B0--- F2 B1--- ...B2---
rank 1  ...F0 B0--- F1 B1--- F2 B2--- ......
activations in flight, at most: 2 1
)");
}

TEST(Pipeline, CountsOneAsOne) {
  Launched muster({"pipeline", "1f1b", "--ranks", "1", "--micro-batches", "1"});
  EXPECT_EQ(muster.wait().code, 0);
  EXPECT_THAT(muster.out(), HasSubstr("1f1b, 1 stage on 1 rank, 1 micro-batch: step 3,"));
}

TEST(Pipeline, RefusesTimesThatDoNotAddUpAndTwoFormsOfOutput) {
  Launched endless({"pipeline", "gpipe", "--ranks", "2", "--forward-time", "1e308"});
  EXPECT_EQ(endless.wait().code, 2);
  EXPECT_THAT(endless.err(), HasSubstr("0, or from 1e-100 to 1e+100 (got 1e+308)"));
  EXPECT_EQ(endless.out(), "");
  Launched both({"pipeline", "gpipe", "--csv", "--json"});
  EXPECT_EQ(both.wait().code, 2);
  EXPECT_THAT(both.err(), HasSubstr("--json"));
}

TEST(Pipeline, RefusesWhatWouldChangeNothing) {
  const test::Folder folder;
  const std::string svg = folder.path() / "step.svg", csv = folder.path() / "order.csv";
  write_file_atomic(csv, "0F0,0B0\n1F0,1B0\n");
  const std::vector<std::string> step{"pipeline", "gpipe", "--ranks", "2", "--micro-batches", "1"};
  const auto refused = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    Launched muster(words);
    EXPECT_EQ(muster.wait().code, 2);
    return muster.err();
  };
  EXPECT_THAT(refused(step, {"--svg", svg, "--until", "5"}),
              HasSubstr("--until: the axis holds the step, 6 (got 5)"));
  EXPECT_THAT(refused(step, {"--svg", svg, "--until", "-3"}), HasSubstr("(got -3)"));
  EXPECT_THAT(refused(step, {"--until", "9"}), HasSubstr("--svg"));
  EXPECT_THAT(refused({"pipeline", "--file", csv}, {"--ranks", "2"}), HasSubstr("--ranks"));
  EXPECT_FALSE(std::filesystem::exists(svg));
}

TEST(Pipeline, ReadsWhatItWritesAndNamesTheFault) {
  const test::Folder folder;
  Launched written({"pipeline", "zbv", "--ranks", "2", "--csv"});
  EXPECT_EQ(written.wait().code, 0);
  const std::string csv = folder.path() / "order.csv";
  write_file_atomic(csv, written.out());
  Launched read({"pipeline", "--file", csv, "--json", "--svg", folder.path() / "order.svg"});
  EXPECT_EQ(read.wait().code, 0);
  const Json json = parse_json(read.out(), "stdout");
  EXPECT_EQ(json["step"], 6 * 8 + 1);
  EXPECT_EQ(json["ranks"][1]["stages"], Json({1, 2}));
  EXPECT_THAT(read_file(folder.path() / "order.svg"), HasSubstr("order.csv, 4 stages on 2 ranks"));
  write_file_atomic(csv, written.out() + "0F0\n");
  Launched refused({"pipeline", "--file", csv});
  EXPECT_EQ(refused.wait().code, 2);
  EXPECT_THAT(refused.err(), HasSubstr("stage 0 is on two ranks"));
}

TEST(List, IsJsonOnRequest) {
  Launched muster({"list", "launchers", "--json"});
  EXPECT_EQ(muster.wait().code, 0);
  const Json rows = parse_json(muster.out(), "stdout");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["name"], "local");
  EXPECT_EQ(rows[0]["available"], true);
}

}  // namespace
}  // namespace muster::cli
