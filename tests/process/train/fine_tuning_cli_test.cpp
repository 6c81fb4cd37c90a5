// Averages, a learning-rate search, communication hooks and new heads as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::on_ranks;
using test::Words;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_process::Launched;

constexpr std::chrono::seconds kTuningLimit{90};

Words cnn_words(const Words& more, int classes = 4) {
  Words words{"train",
              "--data",
              concat("synthetic:samples=220,test_samples=60,size=8,classes=", classes),
              "--model",
              "cnn:width=4,hidden=16",
              "--batch-size",
              "12",
              "--workers",
              "0"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

fs::path newest(const fs::path& output) {
  return output / "checkpoints" / trim(read_file(output / "latest"));
}

TEST(FineTuningCommand, ARunWithAllOfThemIsKilledAndGoesOnBitForBit) {
  const test::Folder folder;
  const auto words = [&](const char* name) {
    return on_ranks(2,
                    cnn_words({"--sync-batch-norm",
                               "--comm-hook",
                               "powersgd:start=2,min_compression_rate=1",
                               "--find-unused-parameters",
                               "--ema-decay",
                               "0.9",
                               "--lr",
                               "find:steps=40,min=1e-5",
                               "--epochs",
                               "6",
                               "--checkpoint-every",
                               "5",
                               "--resume",
                               "auto",
                               "--output",
                               folder.path() / name}));
  };
  Launched whole(words("whole"));
  ASSERT_EQ(whole.wait(kTuningLimit).code, 0) << whole.err();
  EXPECT_THAT(whole.err(), HasSubstr("found in "));
  Launched killed(words("killed"));
  ASSERT_TRUE(killed.wait_for("epoch 2/")) << killed.err();
  killed.signal(SIGKILL);
  killed.wait(kTuningLimit);
  Launched resumed(words("killed"));
  ASSERT_EQ(resumed.wait(kTuningLimit).code, 0) << resumed.err();
  EXPECT_THAT(resumed.err(), AllOf(HasSubstr("resuming after step"), Not(HasSubstr("found in "))));
  const fs::path a = newest(folder.path() / "whole"), b = newest(folder.path() / "killed");
  EXPECT_EQ(a.filename(), b.filename());
  for (const char* name : {"model.safetensors",
                           "optimizer.safetensors",
                           "rng.safetensors",
                           "ema.safetensors",
                           "comm_hook.safetensors"})
    EXPECT_TRUE(read_file(a / name) == read_file(b / name)) << name;
}

TEST(FineTuningCommand, EvaluateMeasuresTheAveragesThatTheRunTested) {
  const test::Folder folder;
  const fs::path output = folder.path() / "run";
  Launched trained(
      cnn_words({"--ema-decay", "0.8", "--epochs", "3", "--json", "--output", output}));
  ASSERT_EQ(trained.wait(kTuningLimit).code, 0) << trained.err();
  EXPECT_THAT(trained.err(), HasSubstr("averaged weights: "));
  const double tested = Json::parse(trained.out()).at("test_loss");
  const auto loss = [&](const char* weights) {
    Launched asked({"evaluate", output, "--json", "--weights", weights});
    EXPECT_EQ(asked.wait(kTuningLimit).code, 0) << asked.err();
    return Json::parse(asked.out()).at("loss").get<double>();
  };
  EXPECT_NEAR(loss("ema"), tested, 1e-6);
  EXPECT_GT(std::abs(loss("last") - tested), 1e-6);
}

// A normalisation that stays in evaluation mode does not mind how many samples it sees.
TEST(FineTuningCommand, FrozenNormalisationsTakeAnyBatch) {
  const auto trains = [](const Words& words) {
    Launched program(words);
    const int code = program.wait(kTuningLimit).code;
    return code == 0 ? "trained" : program.err();
  };
  const Words resnet{"train",
                     "--data",
                     "synthetic:samples=40,test_samples=8,size=16,classes=4",
                     "--model",
                     "resnet18",
                     "--validation-samples",
                     "4",
                     "--workers",
                     "0",
                     "--max-steps",
                     "2"};
  const Words frozen{"--freeze", "*bn*,*downsample.1*"};
  EXPECT_EQ(trains(test::joined(test::joined(resnet, frozen), {"--batch-size", "1"})), "trained");
  EXPECT_THAT(trains(test::joined(resnet, {"--batch-size", "1", "--freeze", "*bn*"})),
              HasSubstr("its BatchNorm cannot train on one sample"))
      << "those beside the stages are not frozen";
  EXPECT_EQ(trains(cnn_words({"--on-oom",
                              "split",
                              "--device",
                              "fake:0",
                              "--max-steps",
                              "2",
                              "--freeze",
                              "conv*,bn*"})),
            "trained");
  EXPECT_THAT(trains(cnn_words({"--on-oom", "split", "--device", "fake:0", "--freeze", "conv*"})),
              HasSubstr("smaller micro-batches change what a batch normalisation sees"));
  EXPECT_THAT(trains(on_ranks(2, test::joined(resnet, {"--batch-size", "2"}))),
              HasSubstr("hint: take --batch-size 4 or more"));
}

TEST(FineTuningCommand, OtherClassesTakeANewHead) {
  const test::Folder folder;
  const fs::path old = folder.path() / "old", fresh = folder.path() / "fresh";
  Launched before(cnn_words({"--max-steps", "2", "--output", old}, 7));
  ASSERT_EQ(before.wait(kTuningLimit).code, 0) << before.err();
  const std::string weights = newest(old) / "model.safetensors";
  Launched refused(cnn_words({"--weights", weights, "--output", fresh}));
  EXPECT_EQ(refused.wait(kTuningLimit).code, 2);
  EXPECT_THAT(refused.err(), HasSubstr("--head new"));
  Launched taken(on_ranks(2,
                          cnn_words({"--weights",
                                     weights,
                                     "--head",
                                     "new",
                                     "--lr-factor",
                                     "*=0.1,fc2=1",
                                     "--freeze",
                                     "conv1",
                                     "--epochs",
                                     "1",
                                     "--output",
                                     folder.path() / "taken"})));
  EXPECT_EQ(taken.wait(kTuningLimit).code, 0) << taken.err();
  EXPECT_THAT(taken.err(), HasSubstr("1 frozen"));
  EXPECT_THAT(taken.out(), HasSubstr("test accuracy"));
}

}  // namespace
}  // namespace muster
