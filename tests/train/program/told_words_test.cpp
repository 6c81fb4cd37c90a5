// What the config file of a run that goes on says: what was told, as it holds.
#include "muster/train/program/told_words.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/formats/dataset_spec.h"

namespace muster::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using WordsOfRun = std::vector<std::string>;

/// Options as they hold, of a run whose rate is resolved.
TrainOptions holding() {
  TrainOptions options;
  options.lr = 0.05;  // sgd's own
  options.monitor = "validate_accuracy";
  return options;
}

WordsOfRun told_now(const WordsOfRun& before, const WordsOfRun& told, const TrainOptions& now) {
  return told_words(before, told, now, TrainOptions());
}

TEST(ToldWords, AreThoseOfBeforeAndNow) {
  TrainOptions now = holding();
  now.lr = 0.001;
  now.epochs = 2;
  now.label_smoothing = 0.1;
  EXPECT_THAT(
      told_now(
          {"--epochs=1", "--lr=0.02", "--label-smoothing=0.1"}, {"--epochs=2", "--lr=0.001"}, now),
      UnorderedElementsAre("--label-smoothing=0.1", "--epochs=2", "--lr=0.001"));
  EXPECT_THAT(told_now({}, {}, holding()), IsEmpty());
}

// The run went back behind the start that told them.
TEST(ToldWords, ThatDoNotHoldGiveWayToWhatDoes) {
  TrainOptions now = holding();
  now.lr = 0.02;
  now.max_time = 5400;
  EXPECT_THAT(told_now({"--lr=0.001",
                        "--epochs=9",
                        "--max-time=1h30m",
                        "--deterministic",
                        "--data-dir=/other",
                        "--test-weights=best"},
                       {},
                       now),
              UnorderedElementsAre("--max-time=1h30m", "--lr=0.02"));
}

// A kill came between the checkpoint's plan and this file.
TEST(ToldWords, ThatTheFileLacksAreAdded) {
  TrainOptions now = holding();
  now.test_weights = "best";
  now.deterministic = true;
  now.max_steps = 7;
  now.model = "mlp";       // not one that may be told anew: the file has it from the start
  now.strategy = "zero1";  // of this start alone
  EXPECT_THAT(told_now({"--model=mlp", "--strategy=ddp", "--devices=2"}, {}, now),
              UnorderedElementsAre(
                  "--model=mlp", "--test-weights=best", "--deterministic", "--max-steps=7"));
}

TEST(ToldWords, ThatLeaveItToTheRunChangeNothing) {
  TrainOptions now = holding();
  now.monitor = "validate_loss";
  now.batch_size = 64;
  now.batch_size.found_by = "auto";
  now.lr = 0.0123;
  now.lr.found_by = "find";
  EXPECT_THAT(
      told_now({"--monitor=validate_loss", "--batch-size=auto", "--lr=find"},
               {"--monitor=auto", "--batch-size=auto", "--lr=find:steps=9", "--strategy=auto"},
               now),
      UnorderedElementsAre(
          "--monitor=validate_loss", "--batch-size=auto", "--lr=find", "--strategy=auto"));
}

TEST(ToldWords, OfDataThatMovedAreTheNewPlace) {
  TrainOptions now = holding();
  now.data = formats::with_whole_path("csv:/new/rows.csv,target=y");
  EXPECT_THAT(
      told_now({"--data=csv:/old/rows.csv,target=y"}, {"--data=csv:/new/rows.csv,target=y"}, now),
      ElementsAre("--data=csv:/new/rows.csv,target=y"));
}

// What a program itself has in place of the usual is not told.
TEST(ToldWords, OfAProgramAreWithoutItsOwnDefaults) {
  FitOptions given;
  given.epochs = 20;
  FitOptions now = given;
  now.lr = 0.05;
  now.patience = 3;
  EXPECT_THAT(told_words<FitOptions>({"--hidden=5", "--lr=nonsense"}, {"--hidden=5"}, now, given),
              UnorderedElementsAre("--hidden=5", "--patience=3"));
}

}  // namespace
}  // namespace muster::train
