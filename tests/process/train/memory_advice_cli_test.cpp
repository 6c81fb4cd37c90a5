// What `muster train` advises where memory has run out, on fake devices that are too small for a part of
// the step that no smaller batch helps.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"

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
    Words words = wide(folder.path() / (layers + ranks),
                       {"--strategy",
                        "pipeline:split=" + split,
                        "--devices",
                        ranks,
                        "--on-oom",
                        "split",
                        "--max-steps",
                        "2"},
                       "8");
    *(std::find(words.begin(), words.end(), "--model") + 1) = "mlp:hidden=128,layers=" + layers;
    return capped_run(words, bytes);
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
    Words words = wide(folder.path() / on_oom, {"--on-oom", on_oom}, "8");
    *(std::find(words.begin(), words.end(), "--optimizer") + 1) = "adamw";
    const CappedRun run = capped_run(words, 320'000);
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

}  // namespace
}  // namespace muster
