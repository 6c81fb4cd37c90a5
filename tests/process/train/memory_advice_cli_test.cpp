// What `muster train` advises where memory has run out, on fake devices that are too small for a part of
// the step that no smaller batch helps.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"

#include "tests/process/train/capped_run.h"
#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/metrics_rows.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::capped_run;
using test::CappedRun;
using test::joined;
using test::rows_without_time;
using test::weights_of;
using test::wide;
using test::with_values;
using test::Words;
using ::testing::HasSubstr;
using ::testing::Not;

// Of four units those behind the first are 269 KB with their gradients, and the second alone, with the
// second gradient that parts of a step add, 198 KB. Of three, three stages of one each are the most.
TEST(MemoryAdviceCommand, WhereNotEvenOneSampleFitsIntoAStageMoreStagesAreTheAdvice) {
  const test::Folder folder;
  const auto run = [&](const std::string& layers,
                       const std::string& ranks,
                       const std::string& split,
                       int64_t bytes) {
    const Words words = wide(folder.path() / (layers + ranks),
                             {"--strategy",
                              "pipeline:split=" + split,
                              "--devices",
                              ranks,
                              "--on-oom",
                              "split",
                              "--max-steps",
                              "2"},
                             "8");
    return capped_run(with_values(words, {{"--model", "mlp:hidden=128,layers=" + layers}}), bytes);
  };
  const CappedRun two = run("3", "2", "0/1", 240'000);
  EXPECT_EQ(two.code, 1);
  EXPECT_THAT(two.err,
              HasSubstr("hint: no batch size helps; take a smaller model, more stages on more "
                        "devices, or a device with more"));
  EXPECT_EQ(run("3", "4", "0/1/2/3", 240'000).code, 0) << "which helps";
  const CappedRun three = run("2", "3", "0/1/2", 130'000);
  EXPECT_EQ(three.code, 1);
  EXPECT_THAT(three.err,
              HasSubstr("hint: no batch size helps; take a smaller model or a device with more"));
}

// Weights and their gradients are 204 KB, and AdamW's state is as much again.
TEST(MemoryAdviceCommand, WhereTheOptimizersStepDoesNotFitASmallerStateIsTheAdvice) {
  const test::Folder folder;
  for (const std::string on_oom : {"fail", "split"}) {
    const Words words = wide(folder.path() / on_oom, {"--on-oom", on_oom}, "8");
    const CappedRun run = capped_run(with_values(words, {{"--optimizer", "adamw"}}), 320'000);
    EXPECT_EQ(run.code, 1) << run.err;
    EXPECT_THAT(run.err, HasSubstr("out of memory in the first step: Tried to allocate "));
    EXPECT_THAT(
        run.err,
        HasSubstr("hint: it is the optimizer's step, which no batch size makes smaller: "
                  "take an optimizer with less state (--optimizer sgd:momentum=0 has none), "
                  "--strategy zero2 "));
    EXPECT_THAT(run.err, Not(HasSubstr("--batch-size")));
    const fs::path report = folder.path() / on_oom / "out_of_memory.json";
    EXPECT_EQ(parse_json(read_file(report), "the report").at("cause").at("action"), "shard");
  }
}

// 512 samples are 256 KiB of a layer's outputs, of which an evaluation has two at a time; a step has 8 samples.
TEST(MemoryAdviceCommand, AnEvaluationThatDoesNotFitLeavesAReportToo) {
  const test::Folder folder;
  const auto evaluating = [&](const std::string& name,
                              const std::string& validation,
                              const Words& more,
                              int64_t bytes) {
    return capped_run(
        with_values(wide(folder.path() / name, joined({"--limit-train-batches", "2"}, more), "8"),
                    {{"--eval-batch-size", "512"},
                     {"--validation-samples", validation},
                     {"--data", "synthetic:samples=1400,test_samples=600,size=8,classes=4"}}),
        bytes);
  };
  const auto check = [&](const std::string& name, const CappedRun& run, const std::string& where) {
    ASSERT_EQ(run.code, 1) << run.err;
    EXPECT_THAT(run.err, HasSubstr("is out of memory in the " + where));
    EXPECT_THAT(run.err, HasSubstr("hint: take a smaller --eval-batch-size"));
    EXPECT_THAT(run.err, HasSubstr("cause: live tensors: "));
    const fs::path report = folder.path() / name / "out_of_memory.txt";
    EXPECT_THAT(run.err, HasSubstr("report: " + report.string()));
    EXPECT_THAT(read_file(report), HasSubstr("do      take a smaller --eval-batch-size\n"));
    const Json cause =
        parse_json(read_file(folder.path() / name / "out_of_memory.json"), "the report")
            .at("cause");
    EXPECT_EQ(cause.at("do"), "take a smaller --eval-batch-size");
  };
  check("test", evaluating("test", "0", {}, 450'000), "test after step ");
  check("validation", evaluating("validation", "600", {}, 450'000), "validation after step 2");
  const Words sanity{"--num-sanity-val-steps", "100"};
  check("sanity", evaluating("sanity", "600", sanity, 300'000), "validation after step 0");
  // Of several ranks whichever fails first; the others end with it.
  const Words ranks{"--strategy", "ddp", "--devices", "2"};
  const CappedRun two = evaluating("two", "600", ranks, 450'000);
  EXPECT_EQ(two.code, 1) << two.err;
  EXPECT_THAT(two.err, HasSubstr("take a smaller --eval-batch-size"));
  EXPECT_TRUE(fs::exists(folder.path() / "two" / "out_of_memory-rank0.txt") ||
              fs::exists(folder.path() / "two" / "out_of_memory-rank1.txt"));
}

// 512 samples of a validation do not fit, and the epoch before it is whole.
TEST(MemoryAdviceCommand, AnEpochWhoseValidationDoesNotFitIsKept) {
  const test::Folder folder;
  const auto words = [&](const std::string& name, const std::string& eval_batch) {
    return with_values(wide(folder.path() / name, {"--limit-train-batches", "3"}, "8"),
                       {{"--eval-batch-size", eval_batch},
                        {"--validation-samples", "600"},
                        {"--data", "synthetic:samples=1400,test_samples=60,size=8,classes=4"}});
  };
  const fs::path kept = folder.path() / "kept", whole = folder.path() / "whole";
  const CappedRun failed = capped_run(words("kept", "512"), 450'000);
  ASSERT_EQ(failed.code, 1) << failed.err;
  EXPECT_THAT(failed.err, HasSubstr("out of memory in the validation after step 3"));
  EXPECT_THAT(failed.err,
              HasSubstr((kept / "checkpoints" / "step-3").string() +
                        ": --resume begins with its validation"));
  const auto resumed = [&](const std::string& eval_batch) {
    return capped_run(
        {"train", "--resume", kept, "--eval-batch-size", eval_batch, "--device", "fake", "--json"},
        450'000);
  };
  const CappedRun again = resumed("512");
  EXPECT_EQ(again.code, 1) << again.err;
  EXPECT_THAT(again.err, HasSubstr("out of memory in the validation after step 3"));
  const CappedRun goes_on = resumed("60");
  ASSERT_EQ(goes_on.code, 0) << goes_on.err;
  ASSERT_EQ(capped_run(words("whole", "60"), 450'000).code, 0);
  EXPECT_EQ(weights_of(kept), weights_of(whole));
  EXPECT_EQ(rows_without_time(kept), rows_without_time(whole));
}

}  // namespace
}  // namespace muster
