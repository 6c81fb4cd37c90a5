#include "cli/line/tune_flags.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Of a study that lacks nothing, with these flags before its program.
TuneFlags tuned(std::vector<std::string> args) {
  for (const char* word : {"--metric", "loss", "--mode", "min", "--param", "lr=uniform(0,1)"})
    args.emplace_back(word);
  for (const char* word : {"--", "true", "{lr}"}) args.emplace_back(word);
  std::ostringstream out, err;
  program::Console console(out, err, false, false);
  TuneFlags flags;
  EXPECT_EQ(parse_tune_flags(args, console, flags), std::nullopt);
  return flags;
}

std::string refused_flags(const std::vector<std::string>& args) {
  return test::refusal_of([&] { tuned(args); });
}

/// What `muster tune FILE` refuses a study file for.
std::string refused_file(const std::string& name, const std::string& text) {
  const test::Folder folder;
  const std::string file = (folder.path() / name).string();
  write_file_atomic(file, text);
  std::ostringstream out, err;
  program::Console console(out, err, false, false);
  TuneFlags flags;
  const std::string said =
      test::refusal_of([&] { parse_tune_flags(std::vector<std::string>{file}, console, flags); });
  EXPECT_THAT(said, StartsWith(folder.path().string() + '/')) << "the file is named first";
  return said.substr(std::min(said.size(), folder.path().string().size() + 1));
}

TEST(TuneFlags, TakeSpansOfTimeWithUnitsAndPlainSeconds) {
  EXPECT_EQ(tuned({"--time-budget", "2h"}).spec.time_budget_s, 7200);
  EXPECT_EQ(tuned({"--time-budget", "1h30m"}).spec.time_budget_s, 5400);
  EXPECT_EQ(tuned({"--time-budget", "90m"}).spec.time_budget_s, 5400);
  EXPECT_EQ(tuned({"--time-budget=0.5"}).spec.time_budget_s, 0.5);
  EXPECT_EQ(tuned({"--trial-timeout", "20m"}).spec.trial_timeout_s, 1200);
  EXPECT_EQ(tuned({"--trial-timeout", "1200"}).spec.trial_timeout_s, 1200);
}

TEST(TuneFlags, RefuseASpanOfTimeInTheirOwnWords) {
  EXPECT_EQ(refused_flags({"--time-budget", "2 hours"}),
            "--time-budget: a span of time is needed: 90s, 1h30m, or a number of seconds (got 2 "
            "hours)\nhint: units are d, h, m, s and ms, the longer ones first");
  EXPECT_THAT(refused_flags({"--trial-timeout", "30m1h"}), HasSubstr("(got 30m1h)"));
  EXPECT_THAT(refused_flags({"--time-budget=-5"}),
              HasSubstr("time_budget_s: seconds, at least 0 (got -5)"));
}

TEST(TuneFlags, AStudysNameIsThatOfAFile) {
  for (const char* name : {"a/b", "../zz", ".."})
    EXPECT_THAT(refused_flags({"--name", name}),
                HasSubstr("name: it names a file, so it has no slash"));
}

TEST(TuneFlags, AMetricHasAModeAndAParameterIsGivenOnce) {
  std::ostringstream out, err;
  program::Console console(out, err, false, false);
  const auto refusal = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--param", "lr=uniform(0,1)", "--", "true", "{lr}"});
    TuneFlags flags;
    return test::refusal_of([&] { parse_tune_flags(words, console, flags); });
  };
  EXPECT_THAT(refusal({"--metric", "loss"}),
              StartsWith("--metric loss: --mode min or --mode max says which end"));
  EXPECT_THAT(refused_flags({"--param", "lr=uniform(0,2)"}),
              HasSubstr("--param lr: each parameter"));
  // Another metric than the file's has not its mode.
  const test::Folder folder;
  const std::string file = (folder.path() / "study.toml").string();
  write_file_atomic(file, "metric = \"loss\"\nmode = \"min\"\ncommand = [\"true\", \"{lr}\"]\n");
  EXPECT_THAT(refusal({file, "--metric", "accuracy"}), StartsWith("--metric accuracy: --mode min"));
  write_file_atomic(file, "name = \"n\"\nmode = \"min\"\ncommand = [\"true\", \"{lr}\"]\n");
  TuneFlags flags;
  const std::vector<std::string> filled{file, "--metric", "loss", "--param", "lr=uniform(0,1)"};
  EXPECT_EQ(parse_tune_flags(filled, console, flags), std::nullopt);
  EXPECT_EQ(flags.spec.mode, tune::Mode::kMin);
}

TEST(TuneFlags, ShowInTheHelpWhichTakeASpanOfTime) {
  std::ostringstream out, err;
  program::Console console(out, err, false, false);
  TuneFlags flags;
  EXPECT_EQ(parse_tune_flags(std::vector<std::string>{"--help"}, console, flags), 0);
  const std::string help = out.str() + err.str();
  EXPECT_THAT(help, AllOf(HasSubstr("--time-budget TIME"), HasSubstr("--trial-timeout TIME")));
}

TEST(TuneFlags, NameTheFileOfAStudyThatLacksWhatItNeeds) {
  const std::string space = "[space]\nlr = \"uniform(0, 1)\"\n";
  const std::string head = "metric = \"loss\"\nmode = \"min\"\n";
  EXPECT_THAT(refused_file("a.toml", space), StartsWith("a.toml:1:1: study without a metric"));
  EXPECT_THAT(refused_file("a.toml", head + space),
              StartsWith("a.toml:1:1: study without a command: a trial is the run of a program"));
}

}  // namespace
}  // namespace muster::cli
