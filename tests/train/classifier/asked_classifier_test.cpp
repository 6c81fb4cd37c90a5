// Asking a trained classifier: the run's own numbers again, and what cannot be asked.
#include "muster/train/classifier/asked_classifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/train/checkpoints/saved_weights.h"
#include "muster/train/classifier/predictions_csv.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/small_run.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Asks on thread ranks; what rank 0 gets.
train::AskedClassifier ask(const train::AskOptions& options,
                           int ranks,
                           train::Evaluation* seen = nullptr) {
  train::AskedClassifier first;
  testing::run_ranks(ranks, [&](distributed::ProcessGroup group) {
    train::AskedClassifier asked =
        train::ask_classifier(options, {.world_size = ranks, .cores = 2}, group);
    const train::Evaluation own = train::evaluate(*asked.task, asked.samples, group, asked.options);
    if (group.rank() != 0) return;
    if (seen != nullptr) *seen = own;
    first = std::move(asked);
  });
  return first;
}

/// The run's newest checkpoint as that of another run, with a change.
void copy_run(const std::filesystem::path& from,
              const std::filesystem::path& to,
              const std::function<void(train::Checkpoint&)>& change) {
  train::Checkpoint checkpoint = train::load_checkpoint(from);
  change(checkpoint);
  train::write_checkpoint(to, checkpoint);
}

TEST(AskedClassifier, HasTheNumbersOfTheRunsTestOnAsManyRanks) {
  for (const int ranks : {1, 2}) {
    const test::Folder folder;
    const test::Ran ran = test::run(test::small_run(), ranks, folder.path());
    train::Evaluation seen;
    const auto asked = ask({.run = folder.path()}, ranks, &seen);
    EXPECT_EQ(seen.metrics, ran.result.test.metrics) << "to the bit";
    ASSERT_TRUE(seen.report.confusion && ran.result.test.report.confusion);
    EXPECT_TRUE(
        at::equal(seen.report.confusion->counts(), ran.result.test.report.confusion->counts()));
    EXPECT_THAT(asked.notes, IsEmpty());
    EXPECT_EQ(asked.step, ran.last.position.step);
  }
}

TEST(AskedClassifier, KnowsTheDataOfACheckpointThatDoesNotSayItsSizes) {
  const test::Folder folder, old;
  const test::Ran ran = test::run(test::small_run(), 1, folder.path());
  copy_run(folder.path(), old.path(), [](train::Checkpoint& checkpoint) {
    checkpoint.plan.erase("sample_shape");
    checkpoint.plan.erase("classes");
  });
  train::Evaluation seen;
  ask({.run = old.path()}, 1, &seen);
  EXPECT_EQ(seen.metrics, ran.result.test.metrics);
  EXPECT_THAT(
      test::refusal_of([&] { ask({.run = old.path(), .data = "synthetic:size=9,classes=4"}, 1); }),
      HasSubstr("samples of 1 x 8 x 8, 4 classes (got samples of 1 x 9 x 9, 4 classes)"));
}

TEST(AskedClassifier, SaysThatTheSplitHasOtherContent) {
  const test::Folder folder, other;
  test::run(test::small_run(), 1, folder.path());
  copy_run(folder.path(), other.path(), [](train::Checkpoint& checkpoint) {
    checkpoint.plan["test_fingerprint"] = "00000000";
  });
  EXPECT_THAT(ask({.run = other.path()}, 1).notes,
              ElementsAre(HasSubstr("the test split has other content than when the run began")));
  EXPECT_THAT(ask({.run = other.path(), .split = "validation"}, 1).notes, IsEmpty());
}

TEST(AskedClassifier, RefusesARunOfAnotherTask) {
  const test::Folder folder, other;
  test::run(test::small_run(), 1, folder.path());
  copy_run(folder.path(), other.path(), [](train::Checkpoint& checkpoint) {
    checkpoint.loop["task_name"] = "regression";
  });
  for (const int ranks : {1, 2}) {
    const std::string text = test::error_of([&] { ask({.run = other.path()}, ranks); });
    EXPECT_THAT(text, HasSubstr("the run is one of `muster train` (got task regression)"));
  }
}

TEST(AskedClassifier, RefusesATrainingSplitOfAnotherSize) {
  const test::Folder folder, other;
  test::run(test::small_run(), 1, folder.path());
  copy_run(folder.path(), other.path(), [](train::Checkpoint& checkpoint) {
    checkpoint.plan["train_samples"] = 150;
  });
  EXPECT_THAT(test::refusal_of([&] { ask({.run = other.path(), .split = "train"}, 1); }),
              HasSubstr("the run's training data had 170 samples (got 220 now)"));
}

TEST(PredictionsCsv, QuotesNamesAndHasTheColumnsThatThereAre) {
  std::string text;
  train::PredictionsCsv csv(
      {"a,b", "say \"c\""}, true, [&](std::string_view more) { text += more; });
  const auto rows = [](int64_t first) {
    return train::PredictedRows{.first = first,
                                .columns = {{"class", torch::tensor({1}, torch::kLong)},
                                            {"probability", torch::tensor({0.7F})},
                                            {"probabilities", torch::tensor({{0.3F, 0.7F}})}}};
  };
  csv.add(rows(0));
  csv.add(rows(1));
  EXPECT_EQ(text,
            "index,class,name,probability,\"probability_a,b\",\"probability_say \"\"c\"\"\"\n"
            "0,1,\"say \"\"c\"\"\",0.7,0.3,0.7\n"
            "1,1,\"say \"\"c\"\"\",0.7,0.3,0.7\n");
}

TEST(PredictionsCsv, NamesTheFilesOfSamplesThatAreFiles) {
  std::string text;
  train::PredictionsCsv csv(
      {},
      false,
      [&](std::string_view more) { text += more; },
      [](int64_t index) { return concat("a,", index, ".jpg"); });
  csv.add({.first = 3,
           .columns = {{"class", torch::tensor({1, 0}, torch::kLong)},
                       {"probability", torch::tensor({0.75F, 0.5F})},
                       {"target", torch::tensor({1, 1}, torch::kLong)}}});
  EXPECT_EQ(text,
            "index,class,probability,target,file\n"
            "3,1,0.75,1,\"a,3.jpg\"\n"
            "4,0,0.5,1,\"a,4.jpg\"\n");
}

}  // namespace
}  // namespace muster
