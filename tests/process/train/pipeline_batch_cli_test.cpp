// `muster train --batch-size auto` under `--strategy pipeline`: a probe is a step of all ranks.
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
using test::found_in;
using test::joined;
using test::kStageTooSmall;
using test::weights_of;
using test::wide;
using test::Words;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// Flags of a short run whose steps may be split.
Words splitting(const std::string& strategy, const std::string& max_steps) {
  return {"--strategy", strategy, "--on-oom", "split", "--max-steps", max_steps};
}

/// The same, of two ranks that are threads.
Words split_on_threads(const std::string& strategy) {
  return joined(splitting(strategy, "3"), {"--devices", "2"});
}

// A probe is a step of all stages, and fits where it fits on each: here the first is the one that has
// no room for 384 samples, as above. Micro-batches stay of one size. Where there is room for all of the
// data, the run that follows is the one that was told their number: probes leave nothing behind.
TEST(PipelineBatchCommand, FindsTheBatchOfAPipeline) {
  const test::Folder folder;
  for (const std::string name : {"processes", "threads"}) {
    SCOPED_TRACE(name);
    const auto words = [&](const std::string& output, const std::string& batch) {
      const Words more = splitting("pipeline:micro_batches=2,split=0/1", "5");
      const fs::path path = folder.path() / (name + output);
      return name == "processes" ? test::on_ranks(2, wide(path, more, batch))
                                 : wide(path, joined(more, {"--devices", "2"}), batch);
    };
    const CappedRun run = capped_run(words("capped", "auto"), kStageTooSmall);
    ASSERT_EQ(run.code, 0) << run.err;
    const int64_t batch = found_in(run.err);
    EXPECT_EQ(batch % 2, 0);
    EXPECT_GE(batch, 192) << "which fits";
    EXPECT_LT(batch, 384) << "which does not";
    EXPECT_THAT(run.err, Not(HasSubstr(", of each rank)"))) << "one batch passes through both";
    EXPECT_THAT(run.err, ContainsRegex("found .batch [0-9]+ of at most 960: [1-8] probes of 2, "));
    const Json config =
        parse_json(read_file(folder.path() / (name + "capped") / "config.json"), "config");
    EXPECT_EQ(config.at("batch_size"), batch);
    const CappedRun roomy = capped_run(words("roomy", "auto"));
    ASSERT_EQ(roomy.code, 0) << roomy.err;
    EXPECT_EQ(found_in(roomy.err), 960);
    EXPECT_THAT(roomy.err, HasSubstr("the data ends it, not the memory"));
    const CappedRun told = capped_run(words("told", "960"));
    ASSERT_EQ(told.code, 0) << told.err;
    EXPECT_EQ(weights_of(folder.path() / (name + "roomy")),
              weights_of(folder.path() / (name + "told")));
  }
}

// The second stage has room for its weights, and none for their gradients. All ranks say so, and the one
// that serves their store ends last: else the others' questions to it would be answered by c10d, with
// stack traces.
TEST(PipelineBatchCommand, ASearchThatFindsNothingEndsWithASentenceAlone) {
  const test::Folder folder;
  const Words more{"--strategy", "pipeline:micro_batches=2,split=0/1", "--on-oom", "split"};
  const CappedRun run =
      capped_run(test::on_ranks(2, wide(folder.path() / "a", more, "auto")), 120'000);
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("a batch size that fits: not even 1 sample does"));
  for (const char* of_c10d : {"TCPStore", "recvValue", "C++ CapturedTraceback", "Exception raised"})
    EXPECT_THAT(run.err, Not(HasSubstr(of_c10d)));
}

// Where a stage begins is measured, and what a probe was measured with is what the run goes on with. In
// one micro-batch a unit that is measured, on the first rank, takes more than a stage of the cut would:
// probes end there, too, for all ranks.
TEST(PipelineBatchCommand, FindsTheBatchOfAPipelineWhoseCutIsMeasured) {
  const test::Folder folder;
  for (const std::string name : {"processes", "threads"}) {
    for (const int64_t pieces : {4, 1}) {
      SCOPED_TRACE(concat(name, ", micro-batches: ", pieces));
      const Words more = splitting(concat("pipeline:micro_batches=", pieces), "5");
      const fs::path path = folder.path() / concat(name, pieces);
      const CappedRun run =
          capped_run(name == "processes" ? test::on_ranks(2, wide(path, more, "auto"))
                                         : wide(path, joined(more, {"--devices", "2"}), "auto"),
                     kStageTooSmall);
      ASSERT_EQ(run.code, 0) << run.err;
      EXPECT_GT(found_in(run.err), 4) << run.err;
      EXPECT_EQ(found_in(run.err) % pieces, 0);
      // The line of the run's own pipeline, which has nothing left to measure.
      EXPECT_THAT(
          run.err,
          ContainsRegex("pipeline: 1f1b of [14] micro-batche?s?, 2 stages on 2 ranks; they begin"));
      EXPECT_THAT(run.err, HasSubstr("(as it was measured before; the same again: split=0/"));
    }
  }
}

// The cut that is fastest takes more on one stage than another cut does on any, and as long as it fits it
// is the one that probes are cut by. How far the batch may grow is a matter of the other one.
TEST(PipelineBatchCommand, FindsWhatTheCutThatTakesLeastHasRoomFor) {
  const test::Folder folder;
  const auto found_by = [&](const std::string& name, const std::string& split) {
    const Words more = split_on_threads("pipeline:micro_batches=4" + split);
    const CappedRun run = capped_run(wide(folder.path() / name, more, "auto"), kStageTooSmall);
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.err, Not(HasSubstr("the step is made again"))) << run.err;
    return static_cast<double>(found_in(run.err));
  };
  const double least = found_by("least", ",split=0/1"), other = found_by("other", ",split=0/2");
  ASSERT_GT(0.8 * least, other);
  EXPECT_GE(found_by("measured", ""), 0.85 * least);
}

// Of fewer than 200 samples a run makes fewer than 100 micro-batches. Sizes below 100 are those of which
// there are no whole ones.
TEST(PipelineBatchCommand, FindsABatchOfFewerSamplesThanMicroBatchesAreAskedFor) {
  const test::Folder folder;
  const auto run_with = [&](const std::string& name, int64_t bytes) {
    const Words more = split_on_threads("pipeline:micro_batches=100,split=0/1");
    return capped_run(wide(folder.path() / name, more, "auto"), bytes);
  };
  const CappedRun run = run_with("some", 300'000);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_GE(found_in(run.err), 50) << run.err;
  EXPECT_LT(found_in(run.err), 100) << run.err;
  EXPECT_THAT(run.err, ContainsRegex("probes of 100 .out of memory., 1, "));
  EXPECT_THAT(run.err, HasSubstr(" (100 were asked for, of two samples at least: "));
  EXPECT_THAT(run.err, Not(HasSubstr("the step is made again")));
  const CappedRun none = run_with("none", 134'000);
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("a batch size that fits: not even 1 sample does"));
}

// With one micro-batch of 240 samples a unit does not even fit to be measured; the run takes more of them.
TEST(PipelineBatchCommand, NumbersOfMicroBatchesThatDoNotFitAreNotTaken) {
  const test::Folder folder;
  const Words more = split_on_threads("pipeline:micro_batches=0");
  const CappedRun run = capped_run(wide(folder.path() / "a", more, "240"), kStageTooSmall);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, ContainsRegex("pipeline: 1f1b of (2|4|8|16) micro-batches"));
}

}  // namespace
}  // namespace muster
