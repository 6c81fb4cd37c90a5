// What `muster train` says of the memory of ranks that have a part of the model each, on fake devices:
// beside the plan's bytes those that were counted, and whose they were where there was no room.
#include <set>
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
using test::kStageTooSmall;
using test::wide;
using test::Words;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Both ways to have two ranks.
constexpr const char* kWays[] = {"threads", "processes"};

Words on_two(const std::string& way, const Words& words) {
  return way == "threads" ? joined(words, {"--devices", "2"}) : test::on_ranks(2, words);
}

int64_t owned_by_all(const Json& report) {
  int64_t all = 0;
  for (const auto& [owner, bytes] : report.at("owners").items()) all += bytes.get<int64_t>();
  return all;
}

TEST(PipelineMemoryCommand, BytesThatWereCountedStandBesideThePlans) {
  const test::Folder folder;
  for (const std::string way : kWays) {
    SCOPED_TRACE(way);
    const fs::path path = folder.path() / way;
    const CappedRun run =
        capped_run(on_two(way, wide(path, {"--strategy", "pipeline:micro_batches=2"}, "384")));
    ASSERT_EQ(run.code, 0) << run.err;
    const CappedRun explained = capped_run(on_two(
        way,
        {"train", "--resume", path, "--device", "fake", "--strategy", "pipeline", "--explain"}));
    for (const std::string stage : {"stage 0", "stage 1"}) {
      const std::string bytes = "at most [0-9.]+ [KM]iB";
      const std::string line = concat(stage,
                                      ": predicted forward [0-9.]+ ms, backward [0-9.]+ ms, idle "
                                      "[0-9.]+ %, ",
                                      bytes,
                                      "; measured ",
                                      bytes);
      EXPECT_THAT(run.err, ContainsRegex(line));
      EXPECT_THAT(explained.out, ContainsRegex(line));
    }
  }
}

// Not when the units are measured: before anything is made. Four stages are of a zb1p, too, that is cut so.
TEST(PipelineMemoryCommand, BudgetsOfOtherStagesAreRefusedBeforeTheRunBegins) {
  const test::Folder folder;
  const auto run = [&](const std::string& strategy, const std::string& rule, const Words& more) {
    return capped_run(
        wide(folder.path() / "none",
             joined({"--strategy", strategy, "--devices", "2", "--activation-checkpointing", rule},
                    more)));
  };
  const std::string three = "budget:1MiB/1MiB/1MiB,offload=off";
  const CappedRun now = run("pipeline", three, {});
  EXPECT_EQ(now.code, 2);
  EXPECT_THAT(
      now.err,
      HasSubstr("--activation-checkpointing budget:1MiB/1MiB/1MiB,offload=off: one budget "
                "for each stage, of which there are 2 (got 3 budgets)\\nhint: name as many, "
                "or the one that each rank has: budget:BYTES,offload=off"));
  EXPECT_FALSE(fs::exists(folder.path() / "none"));
  EXPECT_EQ(run("pipeline", three, {"--explain"}).err, now.err);
  const CappedRun four = run("pipeline:schedule=zb1p", "budget:1MiB/1MiB/1MiB/1MiB", {"--explain"});
  EXPECT_EQ(four.code, 2);
  EXPECT_THAT(four.err, HasSubstr("of which there are 2 (got 4 budgets)"));
}

// In the second micro-batch: the gradients of the first are there, as many bytes as weights, and are
// dropped before the error is told.
TEST(PipelineMemoryCommand, TheReportOfAStageThatHasNoRoomCountsItsGradients) {
  const test::Folder folder;
  for (const std::string way : kWays) {
    SCOPED_TRACE(way);
    const fs::path path = folder.path() / way;
    const CappedRun run = capped_run(
        on_two(way, wide(path, {"--strategy", "pipeline:micro_batches=2,split=0/1"}, "384")),
        kStageTooSmall);
    ASSERT_EQ(run.code, 1) << run.err;
    EXPECT_THAT(run.err, ContainsRegex("(forward|backward) of stage 1, micro-batch 1"));
    const Json report = parse_json(read_file(path / "out_of_memory-rank1.json"), "the report");
    // 128 x 128 + 128 and 128 x 4 + 4 numbers, each of the four rounded to 512 bytes.
    const int64_t weights = 65536 + 512 + 2048 + 512;
    EXPECT_EQ(report.at("owners").at("parameter"), weights);
    EXPECT_EQ(report.at("owners").at("gradient"), weights);
    EXPECT_EQ(owned_by_all(report), report.at("bytes").at("tensors"));
    EXPECT_THAT(read_file(path / "out_of_memory-rank1.txt"), ContainsRegex("gradient +layer fc2"));
  }
}

// A weight in shards has no memory between its uses. Each rank has its part of all, whichever are whole
// just then.
TEST(PipelineMemoryCommand, ARunInShardsThatHasNoRoomLeavesAReport) {
  const test::Folder folder;
  const fs::path path = folder.path() / "fsdp";
  const CappedRun run =
      capped_run(on_two("threads", wide(path, {"--strategy", "fsdp"}, "384")), 600'000);
  ASSERT_EQ(run.code, 1) << run.err;
  EXPECT_THAT(run.err, HasSubstr("cause: live tensors"));
  int reports = 0;
  for (const int rank : {0, 1}) {
    const fs::path file = path / concat("out_of_memory-rank", rank, ".json");
    if (!fs::exists(file)) continue;
    ++reports;
    const Json report = parse_json(read_file(file), "the report");
    EXPECT_EQ(owned_by_all(report), report.at("bytes").at("tensors"));
    std::set<std::string> layers;
    for (const Json& holder : report.at("holders"))
      if (holder.at("owner") == "parameter") layers.insert(holder.value("layer", ""));
    EXPECT_THAT(layers, ElementsAre("fc1", "fc2", "fc3"));
  }
  EXPECT_GT(reports, 0);
}

}  // namespace
}  // namespace muster
