// Each way that `muster train` names where memory has run out is taken: it helps.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/process/train/capped_run.h"
#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::capped_run;
using test::CappedRun;
using test::joined;
using test::wide;
using test::Words;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The model's weights, with whole blocks of 512 bytes: 33,280 + 66,048 + 2,560 = 101,888 bytes in three
// units, and as much of gradients. In two stages by 0/1 the second has 68,608.

std::string hint_of(const CappedRun& run) {
  const size_t begin = run.err.find("hint: ");
  return begin == std::string::npos ? run.err
                                    : run.err.substr(begin, run.err.find('\n', begin) - begin);
}

/// "(--strategy pipeline:split=0/1)": what stands behind the flag.
std::string strategy_named_in(const std::string& hint) {
  const std::string_view flag = "(--strategy ";
  const size_t begin = hint.find(flag);
  if (begin == std::string::npos) return "";
  return hint.substr(begin + flag.size(), hint.find(')', begin) - begin - flag.size());
}

/// Whose evaluations take no more than steps.
Words small_evaluations(const fs::path& output, const Words& more, const std::string& batch) {
  Words words = wide(output, more, batch);
  *(std::find(words.begin(), words.end(), "--eval-batch-size") + 1) = "4";
  if (std::find(more.begin(), more.end(), "--optimizer") != more.end()) {
    const auto other = std::find(words.begin(), words.end(), "--optimizer");
    words.erase(other, other + 2);
  }
  return words;
}

/// A run of a few steps in a folder of its own.
class CappedRuns {
 public:
  explicit CappedRuns(int64_t bytes) : bytes_(bytes) {}

  CappedRun run(const std::string& batch, const Words& more) {
    last_ = folder_.path() / std::to_string(++runs_);
    return capped_run(small_evaluations(last_, joined({"--max-steps", "2"}, more), batch), bytes_);
  }
  int code(const std::string& batch, const Words& more) { return run(batch, more).code; }
  const fs::path& last() const { return last_; }

 private:
  test::Folder folder_;
  int64_t bytes_;
  fs::path last_;
  int runs_ = 0;
};

Words on_two(const std::string& strategy) { return {"--strategy", strategy, "--devices", "2"}; }

const auto kOfBatches = AnyOf(HasSubstr("--batch-size"),
                              HasSubstr("micro-batches"),
                              HasSubstr("--on-oom"),
                              HasSubstr("--accumulate"));
const auto kOfActivations =
    AnyOf(HasSubstr("--activation-checkpointing"), HasSubstr("--precision"));

// Weights and gradients of the second stage are 137,216 bytes; with a second gradient 202,752.
TEST(MemoryWaysCommand, WhereASecondGradientDoesNotFitItIsOneMicroBatch) {
  CappedRuns runs(200'000);
  const CappedRun fails = runs.run("16", on_two("pipeline:split=0/1"));
  ASSERT_EQ(fails.code, 1) << fails.err;
  EXPECT_THAT(fails.err, HasSubstr("backward of stage 1, micro-batch 1"));
  const std::string hint = hint_of(fails);
  EXPECT_THAT(hint, AllOf(HasSubstr("second gradient"), Not(kOfActivations)));
  EXPECT_THAT(hint, Not(AnyOf(HasSubstr("--on-oom"), HasSubstr("more micro-batches"))));
  EXPECT_EQ(strategy_named_in(hint), "pipeline:micro_batches=1,split=0/1");
  const CappedRun helped = runs.run("16", on_two(strategy_named_in(hint)));
  EXPECT_EQ(helped.code, 0) << helped.err;
  EXPECT_EQ(runs.code("16", on_two("pipeline:micro_batches=8,split=0/1")), 1);
  EXPECT_EQ(runs.code("16", joined(on_two("pipeline:split=0/1"), {"--on-oom", "split"})), 1);
}

TEST(MemoryWaysCommand, WhereAUnitThatIsMeasuredDoesNotFitItIsACutThatIsNamed) {
  CappedRuns runs(199'000);
  const CappedRun fails = runs.run("16", on_two("pipeline"));
  ASSERT_EQ(fails.code, 1) << fails.err;
  EXPECT_THAT(fails.err, HasSubstr("at the start, measurement 0"));
  const std::string named = strategy_named_in(hint_of(fails));
  EXPECT_THAT(named, HasSubstr("split=0/1")) << fails.err;
  EXPECT_THAT(hint_of(fails), Not(kOfActivations));
  const CappedRun helped = runs.run("16", on_two(named));
  EXPECT_EQ(helped.code, 0) << helped.err;
}

TEST(MemoryWaysCommand, WithASampleAtATimeNoSmallerBatchIsNamed) {
  const struct {
    Words strategy;
    std::string batch;
    int64_t bytes;
  } cases[] = {{{}, "1", 206'000},
               {on_two("dp"), "2", 206'000},
               {on_two("fsdp"), "2", 206'000},
               {{"--on-oom", "split"}, "1", 206'000}};
  for (const auto& [strategy, batch, bytes] : cases) {
    SCOPED_TRACE(strategy.empty() ? "single" : strategy[1]);
    CappedRuns runs(bytes);
    const CappedRun fails = runs.run(batch, strategy);
    ASSERT_EQ(fails.code, 1) << fails.err;
    EXPECT_THAT(hint_of(fails), Not(kOfBatches));
  }
}

// Room for a part of the weights: nothing has run. Under zero2 all of them go to each device as well.
TEST(MemoryWaysCommand, WhereTheWeightsDoNotFitAtTheStartItIsAStrategyThatNeverHasThemAll) {
  CappedRuns runs(90'000);
  for (const Words& words : {Words{}, on_two("dp"), on_two("zero2")}) {
    const CappedRun fails = runs.run("8", words);
    ASSERT_EQ(fails.code, 1) << fails.err;
    EXPECT_THAT(fails.err, HasSubstr("is out of memory at the start"));
    EXPECT_THAT(hint_of(fails), Not(AnyOf(kOfActivations, HasSubstr("zero"))));
  }
}

TEST(MemoryWaysCommand, WhereBucketsDoNotFitAtTheStartNoBatchIsNamed) {
  CappedRuns runs(150'000);
  for (const Words& words : {on_two("dp"), on_two("zero2")}) {
    const CappedRun fails = runs.run("8", words);
    ASSERT_EQ(fails.code, 1) << fails.err;
    EXPECT_THAT(hint_of(fails), Not(AnyOf(kOfActivations, HasSubstr("--batch-size"))));
  }
}

// As for a run that had begun; and a run may begin there.
TEST(MemoryWaysCommand, AFailureAtTheStartLeavesAReport) {
  CappedRuns runs(90'000);
  const CappedRun fails = runs.run("8", {});
  ASSERT_EQ(fails.code, 1) << fails.err;
  EXPECT_THAT(fails.err, HasSubstr("report: " + (runs.last() / "out_of_memory.txt").string()));
  const Json report = parse_json(read_file(runs.last() / "out_of_memory.json"), "the report");
  EXPECT_EQ(report.at("cause").at("class"), "live-tensors");
  EXPECT_GT(report.at("owners").at("parameter"), 0) << "whose it was is known then, too";
  EXPECT_FALSE(fs::exists(runs.last() / "config.json"));
  const CappedRun later = capped_run(wide(runs.last(), {"--max-steps", "2"}, "8"));
  EXPECT_EQ(later.code, 0) << later.err;
  const CappedRun other = capped_run(wide(runs.last(), {}, "8"), 90'000);
  EXPECT_NE(other.code, 0);
  EXPECT_THAT(other.err, Not(HasSubstr("report: "))) << "another run's folder";
  const CappedRun ranks = runs.run("8", on_two("dp"));
  ASSERT_EQ(ranks.code, 1) << ranks.err;
  EXPECT_TRUE(fs::exists(runs.last() / "out_of_memory-rank0.json") ||
              fs::exists(runs.last() / "out_of_memory-rank1.json"));
}

// Weights, state, gradients in buckets, these once more, and a gradient of 65,536 on its way are 473,088
// bytes, of whatever batch; without state 371,200. Some runs at 400,000 did not have that: a third set seems to be there for a moment.
TEST(MemoryWaysCommand, WhereBucketsDoNotFitItIsLessStateOrASplit) {
  CappedRuns runs(470'000);
  const Words words = joined(on_two("dp"), {"--optimizer", "sgd:momentum=0.9"});
  const CappedRun fails = runs.run("4", words);
  ASSERT_EQ(fails.code, 1) << fails.err;
  EXPECT_THAT(hint_of(fails),
              AllOf(HasSubstr("(--optimizer sgd:momentum=0 has none)"),
                    HasSubstr("--on-oom split"),
                    HasSubstr("--strategy zero2 or fsdp")));
  EXPECT_THAT(hint_of(fails), Not(AnyOf(kOfActivations, HasSubstr("--batch-size"))));
  EXPECT_EQ(runs.code("4", on_two("dp")), 0) << "without momentum";
  EXPECT_EQ(runs.code("4", joined(words, {"--on-oom", "split"})), 0);
  EXPECT_EQ(runs.code("4", joined(words, {"--activation-checkpointing", "blocks"})), 1);
  EXPECT_EQ(runs.code("2", words), 1);
}

// The first layer is 32,768 bytes, the second one with a gradient 131,072; no strategy cuts a unit.
TEST(MemoryWaysCommand, WhereATensorIsMoreThanTheDeviceItIsASmallerModel) {
  for (const int64_t bytes : {20'000, 40'000}) {
    CappedRuns runs(bytes);
    for (const Words& words :
         {Words{}, on_two("dp"), on_two("pipeline:split=0/1"), on_two("fsdp")}) {
      SCOPED_TRACE(concat(bytes, words.empty() ? "" : words[1]));
      const CappedRun fails = runs.run("8", words);
      ASSERT_EQ(fails.code, 1) << fails.err;
      EXPECT_THAT(hint_of(fails), HasSubstr("take a smaller model or a device with more memory"));
    }
  }
}

// Batches of 16,384 bytes and of the next step's, beside a second gradient.
TEST(MemoryWaysCommand, WhereASecondGradientDoesNotFitBesideTheBatchNoMorePiecesAreNamed) {
  CappedRuns pipeline(250'000);
  const Words words = on_two("pipeline:split=0/1,micro_batches=1");
  const CappedRun fails = pipeline.run("64", words);
  ASSERT_EQ(fails.code, 1) << fails.err;
  EXPECT_THAT(hint_of(fails), AllOf(HasSubstr("--batch-size"), Not(HasSubstr("micro-batches"))));
  EXPECT_EQ(pipeline.code("64", on_two("pipeline:split=0/1,micro_batches=16")), 1);
  EXPECT_EQ(pipeline.code("16", words), 0);

  CappedRuns single(400'000);
  const Words momentum{"--optimizer", "sgd:momentum=0.9"};
  const CappedRun full = single.run("64", momentum);
  ASSERT_EQ(full.code, 1) << full.err;
  EXPECT_THAT(hint_of(full), AllOf(HasSubstr("--batch-size"), Not(HasSubstr("--on-oom"))));
  EXPECT_EQ(single.code("64", joined(momentum, {"--on-oom", "split"})), 1);
  EXPECT_EQ(single.code("16", momentum), 0);
}

TEST(MemoryWaysCommand, WhereNoBatchSizeIsFoundNothingIsNamedThatTheWeightsAloneExceed) {
  for (const int64_t bytes : {90'000, 150'000}) {
    CappedRuns runs(bytes);
    const CappedRun fails = runs.run("auto", {});
    ASSERT_EQ(fails.code, 1) << fails.err;
    EXPECT_THAT(fails.err, HasSubstr("not even 1 sample does"));
    EXPECT_THAT(hint_of(fails), AllOf(HasSubstr("no batch size helps"), Not(kOfActivations)));
  }
}

TEST(MemoryWaysCommand, AnEstimateOfATinyModelSaysItsErrorInBytes) {
  const test::Folder folder;
  const CappedRun run = capped_run({"train",
                                    "--data",
                                    "synthetic:samples=100,size=8,classes=4",
                                    "--model",
                                    "mlp:hidden=16",
                                    "--batch-size",
                                    "4",
                                    "--explain"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("estimated on meta; within 0.25 MiB"));
}

}  // namespace
}  // namespace muster
