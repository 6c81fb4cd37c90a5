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
            "run.toml:3:1: lr schedule step has no parameter \"size\""}}) {
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
