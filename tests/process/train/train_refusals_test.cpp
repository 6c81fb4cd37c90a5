// What `muster train` refuses, in what words: numbers, config files, runs that diverge.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing_process::Launched;

const char* const kTinyData = "synthetic:samples=220,test_samples=60,size=8,classes=4";

/// The error that a command ends with, and its exit code.
struct Ending {
  int code;
  std::string text;
};

Ending ending(const std::vector<std::string>& words) {
  Launched program(words);
  const auto ended = program.wait(std::chrono::seconds(60));
  EXPECT_EQ(program.out(), "") << "errors belong on stderr";
  return {ended.code, program.err()};
}

TEST(TrainRefuses, NumbersThatDoNotFitOrMakeNoSenseHere) {
  for (const auto& [words, says] : std::vector<std::pair<test::Words, std::string>>{
           {{"--seed", "18446744073709551615"}, "to 9223372036854775807 is needed"},
           {{"--epochs", "99999999999999999999"}, "--epochs: a whole number from"},
           {{"--batch-size", "4611686018427387904", "--accumulate-grad-batches", "4"},
            "--batch-size: at most 2147483647"},
           {{"--devices", "0"}, "--devices: at least 1 (got 0)"},
           {{"--strategy", "dp", "--devices", "100000", "--batch-size", "100000"},
            "--devices: at most 1024"},
           {{"--loader-timeout", "3", "--workers", "0"}, "--loader-timeout: a worker makes"},
           {{"--max-epochs", "3"}, "unknown flag --max-epochs\nhint: did you mean --epochs?"},
           {{"--device", "gpu"}, "did you mean \"cuda\"?"},
           {{"--top-k", "99"}, "--top-k: at most the 4 classes"},
           {{"--optimizer", "sgd:momentum=nan"}, "optimizer sgd parameter \"momentum\""},
           {{"--weights", "no.safetensors"}, "--weights no.safetensors: there is no such file"}}) {
    test::Words line{"train", "--data", kTinyData};
    line.insert(line.end(), words.begin(), words.end());
    const Ending refused = ending(line);
    EXPECT_EQ(refused.code, 2) << refused.text;
    EXPECT_THAT(refused.text, HasSubstr(says));
  }
}

TEST(TrainRefuses, InExplainingWhatTheRunRefusesBeforeItsFirstStep) {
  const test::Folder folder;
  const fs::path used = folder.path() / "used", bad = folder.path() / "bad.safetensors";
  std::ofstream(bad) << "no tensors";
  Launched first(test::train_uneven({"--output", used, "--max-steps", "1"}));
  ASSERT_EQ(first.wait(std::chrono::seconds(60)).code, 0) << first.err();
  const fs::path fresh = folder.path() / "fresh";
  for (const auto& [words, says] : std::vector<std::pair<test::Words, std::string>>{
           {{"--no-decay", "nothing"}, "--no-decay: each pattern is like a parameter"},
           {{"--freeze", "nothing"}, "--freeze: each pattern is like a parameter"},
           {{"--freeze", "*"}, "--freeze: some parameters are left to train"},
           {{"--lr-factor", "nothing=1"}, "--lr-factor: each pattern is like a parameter"},
           {{"--lr-factor", "fc1"}, "--lr-factor: PATTERN=X"},
           {{"--backend", "glo"}, "unknown backend \"glo\""},
           {{"--weights", bad}, "bad.safetensors is not a valid safetensors file"},
           {{"--trace", folder.path()}, "the trace is a file, and this is a folder"},
           {{"--trace", folder.path() / "t.json", "--trace-steps", "0"}, "--trace-steps: 1 to"},
           {{"--strategy", "dp", "--devices", "2", "--freeze", "nothing"},
            "--freeze: each pattern is like a parameter"},
           {{"--strategy", "pipeline:split=0/9", "--devices", "2"},
            "strategy pipeline: split: the units are"},
           {{"--resume", used, "--freeze", "fc1.*"},
            "stays as it was (got freeze was none, now fc1.*)"},
           {{"--output", used}, "a run does not overwrite another one"},
           {{"--output", std::string(300, 'a')}, "a name in a path has at most 255 bytes"}}) {
    test::Words line = test::train_uneven(words);
    const bool has_place = words[0] == "--output" || words[0] == "--resume";
    if (!has_place) line.insert(line.end(), {"--output", fresh});
    const Ending run = ending(line), explained = ending(test::joined(line, {"--explain"}));
    EXPECT_EQ(run.code, 2) << run.text;
    EXPECT_EQ(explained.code, 2) << explained.text;
    EXPECT_THAT(run.text, HasSubstr(says));
    EXPECT_THAT(explained.text, HasSubstr(says));
    EXPECT_FALSE(fs::exists(fresh));
  }
}

TEST(TrainRefuses, WhatAConfigFileSaysWithItsLine) {
  const test::Folder folder;
  const fs::path config = folder.path() / "run.toml";
  for (const auto& [text, says] : std::vector<std::pair<std::string, std::string>>{
           {"seed = 1\nepochs = 1.5\n", "run.toml:2:1: --epochs: a whole number"},
           {"epochs = 0\n", "run.toml:1:1: --epochs: at least 1"},
           {"model = \"mpl\"\n", "run.toml:1:1: unknown model \"mpl\""},
           {"[optimizer]\nname = \"sgd\"\nmomentum = \"much\"\n",
            "run.toml:3:1: optimizer sgd parameter \"momentum\": a number is needed"},
           {"[lr-schedule]\nname = \"step\"\nsize = 3\n",
            "run.toml:3:1: lr schedule step has no parameter \"size\""},
           {"\ntrain-transform = \"nope\"\n", "run.toml:2:1: unknown transform \"nope\""},
           {"devices = 2\nstrategy = \"pipeline:schedule=nope\"\n",
            "run.toml:2:1: unknown pipeline schedule \"nope\""},
           {"resume = \"nope\"\n", "run.toml:1:1: nothing to resume in"}}) {
    std::ofstream(config) << text;
    const Ending refused = ending({"train", "--config", config, "--data", kTinyData});
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.text, HasSubstr(says));
  }
}

// The last step's weights have no loss behind them in which the divergence would show.
TEST(TrainRefuses, ToCallADivergedRunDone) {
  for (const char* lr : {"1e30", "1e39"}) {
    const test::Folder folder;
    const fs::path output = folder.path() / "out";
    const Ending refused = ending(test::on_ranks(2,
                                                 {"train",
                                                  "--data",
                                                  kTinyData,
                                                  "--model",
                                                  "mlp:hidden=8",
                                                  "--optimizer",
                                                  "sgd:momentum=0",
                                                  "--lr",
                                                  lr,
                                                  "--batch-size",
                                                  "220",
                                                  "--epochs",
                                                  "1",
                                                  "--json",
                                                  "--output",
                                                  output}));
    EXPECT_EQ(refused.code, 1) << lr;
    EXPECT_THAT(refused.text, HasSubstr("is not finite after step 1 (epoch 1)"));
    EXPECT_FALSE(fs::exists(output / "best"));
    EXPECT_FALSE(fs::exists(output / "latest"));
    for (const std::string& line : split(read_file(output / "metrics.jsonl"), '\n')) {
      if (line.empty()) continue;
      const Json row = parse_json(line, "metrics.jsonl");  // items() keeps no temporary alive
      for (const auto& [name, value] : row.items())
        EXPECT_TRUE(value.is_number() || value.is_null() || name == "phase") << line;
    }
  }
}

}  // namespace
}  // namespace muster
