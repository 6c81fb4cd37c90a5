// The command line of a program that trains a task: it is that of `muster train`.
#include "muster/train/program/task_program.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/train/checkpoints/checkpoint.h"
#include "muster/train/loop/resolve.h"
#include "muster/train/plan/fit_plan.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::train {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

/// A line through rows of three numbers.
class Rows final : public Task {
 public:
  std::string name() const override { return "rows"; }
  std::vector<Metric> metrics() const override { return {{.name = "error", .wants_less = true}}; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  StepResult train_step(const data::Batch& batch, const StepContext&) override {
    return {torch::mse_loss(net_->forward(batch["data"]).squeeze(1), batch["target"])};
  }

 private:
  torch::nn::Linear net_{3, 1};
};

struct Said {
  int code = -1;
  std::string out, err;
};

/// What the program says on these words.
Said rows_program(std::vector<std::string> words, bool validates = false) {
  int64_t hidden = 3;
  std::filesystem::path table = "t.csv";
  TaskProgram program("rows", "Fits a line to rows.");
  program.flag("--hidden", &hidden, "units of the hidden layer");
  program.flag("--table", &table, "where the rows are");
  program.options.epochs = 1;
  program.options.batch_size = 4;
  program.options.workers = 0;
  words.insert(words.begin(), "build/rows");
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  CaptureStdout();
  CaptureStderr();
  Said said;
  said.code = program.run(static_cast<int>(argv.size()), argv.data(), [&] {
    const auto rows =
        std::make_shared<data::TensorDataset>(torch::ones({12, 3}), torch::ones({12}));
    return TaskParts{
        .data = {.train = rows, .validation = validates ? rows : nullptr, .test = rows},
        .task = [] { return std::make_unique<Rows>(); }};
  });
  said.err = GetCapturedStderr();
  said.out = GetCapturedStdout();
  return said;
}

TEST(TaskProgram, HelpIsLaidOutIn80ColumnsWithItsOwnFlagsFirst) {
  const Said said = rows_program({"--help"});
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(said.err, "");
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("Fits a line to rows."),
                    ContainsRegex("\n  --hidden N {16}units of the hidden layer \\[3\\]\n"),
                    HasSubstr("\n  --config FILE "),
                    HasSubstr("Exit codes: ")));
  EXPECT_LT(said.out.find("--hidden"), said.out.find("--epochs"));
  for (const std::string& line : split(said.out, '\n')) EXPECT_LE(display_width(line), 80U) << line;
}

TEST(TaskProgram, ErrorsAreInTheWordsOfMusterTrain) {
  const Said unknown = rows_program({"--hiden", "4"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.err, "rows: error: unknown flag --hiden\nhint: did you mean --hidden?\n");
  EXPECT_THAT(rows_program({"--epochs"}).err,
              HasSubstr("rows: error: --epochs: it needs a value: "));
  EXPECT_THAT(rows_program({"--hidden", "99999999999999999999"}).err,
              HasSubstr("--hidden: a whole number from -9223372036854775808 to "));
  EXPECT_THAT(rows_program({"--lr", "1", "--lr", "2"}).err, HasSubstr("--lr: it is given once"));
  const Said as_json = rows_program({"--json", "--lr", "x"});
  EXPECT_EQ(as_json.code, 2);
  EXPECT_EQ(parse_json(trim(as_json.err), "error").at("error").at("refused"), "--lr");
}

TEST(TaskProgram, WhatIsThrownIsAnErrorWhateverItIs) {
  TaskProgram program("rows", "Fits a line to rows.");
  const char* const words[] = {"build/rows"};
  CaptureStderr();
  EXPECT_EQ(program.run(1, words, []() -> TaskParts { throw 42; }), 1);
  EXPECT_EQ(GetCapturedStderr(), "rows: error: it threw something that is no std::exception\n");
}

TEST(TaskProgram, AConfigFileSaysFlagsAndAnErrorItsPlace) {
  const test::Folder folder;
  const auto file = folder.path() / "run.toml";
  write_file_atomic(file,
                    "hidden = 7\ntable = \"rows.csv\"\nlr = 0.25\n[optimizer]\nname = \"adam\"\n");
  const Said said = rows_program({"--config", file, "--explain", "--lr", "0.5"});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_THAT(
      said.out,
      AllOf(HasSubstr("0.5"), HasSubstr("adam"), HasSubstr((folder.path() / "rows.csv").string())));
  EXPECT_THAT(said.out, ContainsRegex("hidden +7\n"));
  write_file_atomic(file, "lr = 0.25\noptimizer = \"adm\"\n");
  const Said wrong = rows_program({"--config", file, "--explain"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("run.toml:2:"));
}

TEST(TaskProgram, ARunLeavesItsConfigAndSaysItsResult) {
  const test::Folder folder;
  const auto output = folder.path() / "run";
  const Said said = rows_program({"--hidden", "5", "--output", output, "--json"});
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_THAT(said.err, HasSubstr("train epoch 1/1: 100%"));
  const Json result = parse_json(trim(said.out), "result");
  EXPECT_EQ(result.at("steps"), 3);
  EXPECT_TRUE(result.at("test_loss").is_number());
  EXPECT_THAT(read_file(output / "config.toml"), HasSubstr("hidden = 5\n"));
  const Said again = rows_program(
      {"--config", output / "config.toml", "--output", (folder.path() / "again").string()});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, concat("test loss ", fixed(result.at("test_loss").get<double>(), 4), "\n"));
}

TEST(TaskProgram, AConfigFileTakesBackASwitchThatTheRunBeganWith) {
  const test::Folder folder;
  const auto output = folder.path() / "run", file = folder.path() / "more.toml";
  ASSERT_EQ(rows_program({"--deterministic", "--output", output}).code, 0);
  write_file_atomic(file, "epochs = 2\ndeterministic = false\n");
  const Said said = rows_program({"--resume", output, "--config", file});
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(parse_json(read_file(output / "config.json"), "config").at("deterministic"), false);
  EXPECT_THAT(read_file(output / "config.toml"), Not(HasSubstr("deterministic")));
}

TEST(TaskProgram, DataWithoutASampleIsRefusedAsThat) {
  FitOptions options;
  EXPECT_THAT(test::refusal_of([&] { resolve_fit(options, {}, {.train = 0}, {}); }),
              HasSubstr("the data to train on: at least one sample (got none)"));
}

TEST(TaskProgram, AFlagForAPathNamesOne) {
  for (const char* flag : {"--output", "--resume", "--table"}) {
    const Said said = rows_program({flag, ""});
    EXPECT_EQ(said.code, 2) << flag;
    EXPECT_THAT(said.err, HasSubstr(concat(flag, ": it names a file or folder (got \"\")")));
  }
}

TEST(TaskProgram, NamesNoFlagThatItHasNot) {
  const Said said = rows_program({"--patience", "2"});
  EXPECT_EQ(said.code, 2);
  EXPECT_THAT(said.err, HasSubstr("--patience: it is decided by the validation samples"));
  EXPECT_THAT(said.err, Not(HasSubstr("--validation-samples")));
}

TEST(TaskProgram, ALearningRateIsSearchedForAtARunsStartOnly) {
  const test::Folder folder;
  const auto output = folder.path() / "run";
  ASSERT_EQ(rows_program({"--lr", "0.1", "--output", output}).code, 0);
  const std::string config = read_file(output / "config.toml");
  const Said said = rows_program({"--resume", output, "--lr", "find", "--epochs", "2"});
  EXPECT_EQ(said.code, 2);
  EXPECT_THAT(said.err,
              AllOf(HasSubstr("--lr find: it searches before a run's first step"),
                    HasSubstr("a run that began with 0.1"),
                    HasSubstr("hint: leave --lr away")));
  EXPECT_EQ(read_file(output / "config.toml"), config);
}

TEST(TaskProgram, AScheduleWatchesAMetricOfTheTask) {
  const Said watched = rows_program({"--lr-schedule", "plateau:metric=error", "--explain"}, true);
  EXPECT_EQ(watched.code, 0) << watched.err;
  const Said unknown =
      rows_program({"--lr-schedule", "plateau:metric=accuracy", "--explain"}, true);
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("\"metric\": loss or error (got \"accuracy\")"));
}

TEST(TaskProgram, ARunOfAnotherProgramIsRefusedForThat) {
  const test::Folder folder;
  const auto resumed = [&](const Json& plan) {
    write_checkpoint(folder.path(), {.position = {.step = 3}, .global_batch = 4, .plan = plan});
    return rows_program({"--resume", folder.path(), "--epochs", "2"});
  };
  const Json of_train = to_json(TrainOptions(), FitNumbers());
  const Said classifier = resumed(of_train);
  EXPECT_EQ(classifier.code, 2);
  EXPECT_THAT(classifier.err,
              AllOf(HasSubstr("--resume: a run goes on by the program that began it (got a run of "
                              "`muster train`)"),
                    Not(HasSubstr("--monitor"))));
  FitOptions options;
  options.monitor = "validate_radius";
  options.lr = 0.1;
  Json of_other = to_json(options, FitNumbers());
  of_other["own_flags"] = Json::object();
  of_other["program"] = "build/ring";
  EXPECT_THAT(resumed(of_other).err,
              AllOf(HasSubstr("a run of build/ring, which watches validate_radius"),
                    HasSubstr("hint: go on with it by build/ring")));
}

}  // namespace
}  // namespace muster::train
