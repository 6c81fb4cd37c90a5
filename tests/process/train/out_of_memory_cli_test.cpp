// `muster train --on-oom` and `--batch-size auto`, on fake devices whose memory is too small for the
// batch, or of a size that is to be found out.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/process/train/capped_run.h"
#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"

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

constexpr int64_t kTooSmall = 550'000;  // for 192 samples at a time of this model, not for 96
TEST(OutOfMemoryCommand, AStepThatDoesNotFitEndsTheRunOrIsMadeAgainToTheSameNumbers) {
  const test::Folder folder;
  const CappedRun fails = capped_run(wide(folder.path() / "fails", {}), kTooSmall);
  ASSERT_EQ(fails.code, 1) << fails.err;
  EXPECT_THAT(fails.err,
              HasSubstr("fake:0 is out of memory in the first step: Tried to allocate "));
  EXPECT_THAT(fails.err, HasSubstr("--on-oom split, which does so by itself"));
  const CappedRun splits =
      capped_run(wide(folder.path() / "splits", {"--on-oom", "split"}), kTooSmall);
  ASSERT_EQ(splits.code, 0) << splits.err;
  EXPECT_THAT(
      splits.err,
      ContainsRegex("step 1: out of memory with 192 samples at a time .fake out of memory. Tried "
                    "to allocate .*: the step is made again, 96 at a time"));
  const Json said = parse_json(trim(splits.out), "out").at("out_of_memory");
  EXPECT_EQ(said.at("micro_batch"), 96);
  EXPECT_EQ(said.at("failures"), 1) << "the size is kept";
  const CappedRun told =
      capped_run(wide(folder.path() / "told", {"--accumulate-grad-batches", "2"}, "96"));
  ASSERT_EQ(told.code, 0) << told.err;
  EXPECT_EQ(weights_of(folder.path() / "splits"), weights_of(folder.path() / "told"));
  EXPECT_THAT(read_file(folder.path() / "splits" / "index.html"),
              HasSubstr("1 time; 96 samples of a rank at a time since"));
  const CappedRun roomy = capped_run(wide(folder.path() / "roomy", {"--on-oom", "split"}));
  const CappedRun plain = capped_run(wide(folder.path() / "plain", {}));
  ASSERT_EQ(roomy.code + plain.code, 0);
  EXPECT_EQ(weights_of(folder.path() / "roomy"), weights_of(folder.path() / "plain"))
      << "where there is room nothing changes";
  EXPECT_FALSE(parse_json(trim(roomy.out), "out").contains("out_of_memory"));
}

TEST(OutOfMemoryCommand, WhereNotEvenOneSampleFitsNoBatchSizeIsTheAdvice) {
  const test::Folder folder;
  for (const Words& more : {Words{}, Words{"--lr", "find:steps=20"}}) {
    const Words words = joined({"--on-oom", "split"}, more);
    const CappedRun run = capped_run(wide(folder.path() / "one", words, "8"),
                                     150'000);  // the weights, not their gradients
    EXPECT_EQ(run.code, 1);
    EXPECT_THAT(run.err, HasSubstr("a step with 1 sample at a time"));
    EXPECT_THAT(run.err, HasSubstr("hint: no batch size helps; take a smaller model"));
    EXPECT_THAT(run.err, HasSubstr("cause: "));
  }
}

// 8 batches of 96 samples are 192 KiB, beside weights and gradients of 204; one of 960 is 240, and the
// next one is there already.
TEST(OutOfMemoryCommand, WhereTheBatchesOfAStepDoNotFitFewerOfThemAreTheAdvice) {
  const test::Folder folder;
  const auto run = [&](const std::string& batch, const Words& more) {
    return capped_run(wide(folder.path() / concat(batch, '-', more.size()),
                           joined({"--on-oom", "split", "--max-steps", "2"}, more),
                           batch),
                      380'000);
  };
  EXPECT_EQ(run("96", {}).code, 0);
  const CappedRun several = run("96", {"--accumulate-grad-batches", "8"}), one = run("960", {});
  EXPECT_EQ(several.code + one.code, 2);
  EXPECT_THAT(
      several.err,
      HasSubstr("take a smaller --batch-size, fewer --accumulate-grad-batches, --on-oom "
                "fail, which keeps one of them and may want a smaller one, a smaller model, or "));
  EXPECT_THAT(one.err, HasSubstr("take a smaller --batch-size, a smaller model, or a device"));
}

TEST(OutOfMemoryCommand, ARunThatEndsSaysTheCauseAndLeavesAReport) {
  const test::Folder folder;
  const fs::path one = folder.path() / "one", two = folder.path() / "two",
                 splits = folder.path() / "splits";
  const CappedRun fails = capped_run(wide(one, {}), kTooSmall);
  ASSERT_EQ(fails.code, 1) << fails.err;
  EXPECT_THAT(fails.err, HasSubstr("cause: live tensors: tensors hold "));
  EXPECT_THAT(fails.err, HasSubstr("report: " + (one / "out_of_memory.txt").string()));
  EXPECT_THAT(read_file(one / "out_of_memory.txt"), HasSubstr("out of memory on fake:0: "));
  const Json report = parse_json(read_file(one / "out_of_memory.json"), "the report");
  EXPECT_EQ(report.at("cause").at("class"), "live-tensors");
  EXPECT_EQ(report.at("cause").at("action"), "smaller-batch");
  EXPECT_EQ(report.at("at_failure"), true);
  // 64 x 128 + 128, 128 x 128 + 128 and 128 x 4 + 4 numbers, each of the six rounded to 512 bytes.
  EXPECT_EQ(report.at("owners").at("parameter"), 32768 + 512 + 65536 + 512 + 2048 + 512);
  int64_t owned = 0;
  for (const auto& [owner, bytes] : report.at("owners").items()) owned += bytes.get<int64_t>();
  EXPECT_EQ(owned, report.at("bytes").at("tensors"));
  const auto is_forward = [](const Json& holder) { return holder.value("scope", "") == "forward"; };
  EXPECT_TRUE(std::ranges::any_of(report.at("holders"), is_forward));

  const CappedRun later =
      capped_run(wide(two, {"--strategy", "dp", "--devices", "2"}, "384"), kTooSmall);
  ASSERT_EQ(later.code, 1) << later.err;
  EXPECT_THAT(later.err, ContainsRegex("report: .*/two/out_of_memory-rank[01].txt"));
  EXPECT_TRUE(fs::exists(two / "out_of_memory-rank0.json") ||
              fs::exists(two / "out_of_memory-rank1.json"));

  const CappedRun recovers = capped_run(wide(splits, {"--on-oom", "split"}), kTooSmall);
  ASSERT_EQ(recovers.code, 0) << recovers.err;
  EXPECT_THAT(recovers.err, Not(HasSubstr("cause: ")));
  EXPECT_FALSE(fs::exists(splits / "out_of_memory.txt"));
}

TEST(OutOfMemoryCommand, ARunThatGoesOnKeepsTheSizeThatItHasFound) {
  const test::Folder folder;
  const Words split{"--on-oom", "split"};
  ASSERT_EQ(capped_run(wide(folder.path() / "whole", split), kTooSmall).code, 0);
  const fs::path parts = folder.path() / "parts";
  ASSERT_EQ(capped_run(wide(parts, joined(split, {"--max-steps", "3"})), kTooSmall).code, 0);
  const CappedRun resumed = capped_run(
      {"train", "--resume", parts, "--max-steps", "0", "--device", "fake", "--json"}, kTooSmall);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("steps are made in micro-batches of at most 96 samples"));
  EXPECT_THAT(resumed.err, Not(HasSubstr("the step is made again")));
  EXPECT_EQ(weights_of(parts), weights_of(folder.path() / "whole"));
}

TEST(OutOfMemoryCommand, RanksSplitTogether) {
  const test::Folder folder;
  const auto weights = [&](const std::string& name, const Words& words, int64_t bytes) {
    const CappedRun run = capped_run(words, bytes);
    EXPECT_EQ(run.code, 0) << run.err;
    if (bytes > 0) {
      EXPECT_THAT(run.err, HasSubstr("out of memory with 192 samples at a time"));
    }
    return run.code == 0 ? weights_of(folder.path() / name) : name;
  };
  const auto words = [&](const std::string& name, const Words& more, const std::string& batch) {
    return wide(folder.path() / name, joined({"--on-oom", "split"}, more), batch);
  };
  const Words dp{"--strategy", "dp", "--devices", "2"}, ddp{"--strategy", "ddp"};
  const std::string told =
      weights("told", words("told", joined(dp, {"--accumulate-grad-batches", "2"}), "192"), 0);
  EXPECT_EQ(weights("dp", words("dp", dp, "384"), kTooSmall), told);
  EXPECT_EQ(weights("ddp", test::on_ranks(2, words("ddp", ddp, "384")), kTooSmall), told);
  for (const std::string zero : {"zero1", "zero2"}) {
    const Words sharded = words(zero, {"--strategy", zero}, "384");
    EXPECT_EQ(weights(zero, test::on_ranks(2, sharded), kTooSmall), told) << zero;
  }
}

// A stage that has no room is heard of by all, who make the step again together.
TEST(OutOfMemoryCommand, RanksOfAPipelineSplitTogether) {
  const test::Folder folder;
  const auto run = [&](const std::string& name, const Words& more, const std::string& batch) {
    const Words pipeline{"--strategy", "pipeline:micro_batches=2,split=0/1", "--on-oom", "split"};
    return wide(folder.path() / name, joined(pipeline, more), batch);
  };
  const CappedRun told =
      capped_run(test::on_ranks(2, run("told", {"--accumulate-grad-batches", "2"}, "192")));
  ASSERT_EQ(told.code, 0) << told.err;
  for (const bool processes : {true, false}) {
    const std::string name = processes ? "processes" : "threads";
    const Words words =
        processes ? test::on_ranks(2, run(name, {}, "384")) : run(name, {"--devices", "2"}, "384");
    const CappedRun splits = capped_run(words, kStageTooSmall);
    ASSERT_EQ(splits.code, 0) << splits.err;
    EXPECT_THAT(splits.err,
                ContainsRegex("step 1: out of memory with 384 samples at a time .*: the step is "
                              "made again, 192 at a time"));
    EXPECT_EQ(weights_of(folder.path() / name), weights_of(folder.path() / "told")) << name;
  }
}

TEST(OutOfMemoryCommand, RefusesWhatItCannotKeepEqualByName) {
  const struct {
    Words words;
    std::string says;
  } cases[] = {
      {{"--on-oom", "retry"}, "--on-oom: fail or split or split-unequal (got retry)"},
      {{"--on-oom", "split", "--strategy", "fsdp", "--devices", "2"},
       "--on-oom split: ranks must not wait for each other in a step that may fail on one (got "
       "--strategy fsdp)"},
      {{"--on-oom", "split", "--strategy", "pipeline:ranks=2", "--devices", "4"},
       "strategy pipeline with --on-oom split: replicas of a pipeline"},
      {{"--batch-size", "auto", "--strategy", "pipeline", "--devices", "2"},
       "--on-oom split, which take other memory (got --on-oom fail)"},
      {{"--batch-size", "auto", "--strategy", "pipeline:ranks=2", "--devices", "4"},
       "(got --strategy pipeline in replicas)"},
      {{"--batch-size", "auto", "--strategy", "pipeline:micro_batches=0", "--devices", "2"},
       "--batch-size auto: batches are tried in whole micro-batches, whose number is said"},
      {{"--on-oom", "split", "--comm-hook", "fp16", "--devices", "2"},
       "--on-oom split with --comm-hook"},
      {{"--on-oom", "split", "--find-unused-parameters", "--devices", "2"},
       "--on-oom split with --find-unused-parameters"},
      {{"--on-oom", "split-unequal", "--sync-batch-norm", "--devices", "2"},
       "with --sync-batch-norm"},
      {{"--batch-size", "automatic"}, "--batch-size automatic: a number, auto, or auto:fastest"},
      {{"--batch-size", "auto", "--device", "cpu"}, "(got --device cpu)"},
      {{"--batch-size", "auto", "--strategy", "fsdp", "--devices", "2"}, "(got --strategy fsdp)"},
      {{"--batch-size", "auto", "--devices", "2"},
       "--on-oom split, which take other memory (got --on-oom fail)"},
      {{"--batch-size", "auto", "--fast-dev-run"}, "(got --fast-dev-run)"},
      {{"--batch-size", "auto", "--activation-checkpointing", "budget:512MiB"},
       "(got --activation-checkpointing budget:512MiB)"},
  };
  const test::Folder folder;
  for (const auto& bad : cases) {
    Words words = wide(folder.path() / "none", {});
    for (const char* flag : {"--batch-size", "--device"}) {
      if (std::find(bad.words.begin(), bad.words.end(), flag) == bad.words.end()) continue;
      const auto own = std::find(words.begin(), words.end(), flag);
      words.erase(own, own + 2);
    }
    const CappedRun refused = capped_run(joined(words, bad.words));
    EXPECT_EQ(refused.code, 2) << join(bad.words, " ") << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(bad.says)) << join(bad.words, " ");
    EXPECT_FALSE(fs::exists(folder.path() / "none" / "config.json"));
  }
  const Words cnn{"--model", "cnn:width=4,hidden=16"};
  Words words = wide(folder.path() / "none", {"--on-oom", "split"});
  const auto own = std::find(words.begin(), words.end(), "--model");
  words.erase(own, own + 2);
  const CappedRun normed = capped_run(joined(words, cnn));
  EXPECT_EQ(normed.code, 2);
  EXPECT_THAT(normed.err,
              HasSubstr("smaller micro-batches change what a batch normalisation sees"));
  EXPECT_THAT(normed.err, HasSubstr("(got bn1)"));
  EXPECT_THAT(normed.err, HasSubstr("take --on-oom split-unequal"));
}

TEST(OutOfMemoryCommand, ExplainSaysWhatItWillDo) {
  const test::Folder folder;
  const auto explained = [&](const Words& more, const std::string& batch_size) {
    Words words = wide(folder.path() / "none", more, batch_size);
    std::erase(words, "--json");
    return capped_run(words);
  };
  const CappedRun split = explained({"--on-oom", "split", "--explain"}, "192");
  EXPECT_THAT(
      split.out,
      HasSubstr("out of memory a step that does not fit is made again in smaller micro-batches\n"));
  const CappedRun searched = explained({"--explain"}, "auto");
  EXPECT_THAT(searched.out,
              HasSubstr("batch         searched before the first step: as many samples as fit into "
                        "memory; the number of steps follows from it\n"));
}

// Without a split one of them is on the device at a time; with one, all of a step are.
TEST(OutOfMemoryCommand, FindsTheBatchThatFitsWhereSeveralAreAccumulated) {
  std::vector<int64_t> found;
  for (const std::string on_oom : {"fail", "split"}) {
    const test::Folder folder;
    const auto run = [&](const std::string& name, const std::string& batch) {
      const Words more{"--accumulate-grad-batches", "4", "--max-steps", "6", "--on-oom", on_oom};
      return capped_run(wide(folder.path() / name, more, batch), kStageTooSmall);
    };
    const CappedRun searched = run("found", "auto");
    ASSERT_EQ(searched.code, 0) << searched.err;
    EXPECT_THAT(searched.err, Not(HasSubstr("at a time"))) << "nothing is split";
    found.push_back(found_in(searched.err));
    const CappedRun larger = run("larger", std::to_string(found.back() * 20 / 19 + 2));
    EXPECT_THAT(larger.err, HasSubstr(on_oom == "fail" ? "out of memory" : "at a time"));
  }
  EXPECT_GT(found[0], found[1] * 5 / 4);
}

// A run of 200 steps at the size that is found, and one of a twentieth more that does not fit.
TEST(OutOfMemoryCommand, FindsTheBatchThatFits) {
  const struct {
    const char* model;
    int64_t bytes;
  } cases[] = {{"mlp:hidden=64,layers=1", 900'000},
               {"cnn:width=4,hidden=16", 3'000'000},
               {"transformer:width=16,heads=2,layers=1,feedforward=32", 6'000'000}};
  for (const auto& [model, bytes] : cases) {
    SCOPED_TRACE(model);
    const test::Folder folder;
    const auto words = [&, name = model](
                           const std::string& output, const std::string& batch, const char* steps) {
      return Words{"train",
                   "--data",
                   "synthetic:samples=20000,test_samples=60,size=8,classes=4",
                   "--model",
                   name,
                   "--batch-size",
                   batch,
                   "--eval-batch-size",
                   "16",
                   "--workers",
                   "0",
                   "--epochs",
                   "1000",
                   "--max-steps",
                   steps,
                   "--optimizer",
                   "adam",
                   "--device",
                   "fake:0",
                   "--output",
                   folder.path() / output};
    };
    const CappedRun found = capped_run(words("found", "auto", "200"), bytes);
    ASSERT_EQ(found.code, 0) << found.err;
    const int64_t batch = found_in(found.err);
    EXPECT_GT(batch, 20) << found.err;
    EXPECT_THAT(found.err, ContainsRegex("found .batch [0-9]+ of at most [0-9]+: [1-5] probes"));
    EXPECT_THAT(found.err, Not(ContainsRegex("\\(out of memory\\).*\\(out of memory\\)")));
    const Json config = parse_json(read_file(folder.path() / "found" / "config.json"), "config");
    EXPECT_EQ(config.at("batch_size"), batch);
    EXPECT_EQ(config.at("batch_search"), "auto");
    const int64_t larger = batch * 20 / 19 + 2;
    const CappedRun more = capped_run(words("more", std::to_string(larger), "3"), bytes);
    EXPECT_EQ(more.code, 1) << larger << " fits as well, not only " << batch << '\n' << found.err;
    EXPECT_THAT(more.err, HasSubstr("is out of memory"));
    const CappedRun resumed = capped_run({"train",
                                          "--resume",
                                          folder.path() / "found",
                                          "--max-steps",
                                          "201",
                                          "--batch-size",
                                          "auto",
                                          "--device",
                                          "fake:0"},
                                         bytes);
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(found_in(resumed.err), 0) << "it keeps what it has found";
  }
}

// Its last stage is one pixel here: batch normalisation takes no single sample. And how many steps the
// run has is not known before its batch is.
TEST(OutOfMemoryCommand, FindsTheBatchOfAModelThatWantsTwoSamplesUnderAScheduleThatCountsSteps) {
  const test::Folder folder;
  const CappedRun run = capped_run({"train",
                                    "--data",
                                    "synthetic:samples=61,test_samples=4,size=8,classes=4",
                                    "--model",
                                    "resnet18",
                                    "--batch-size",
                                    "auto",
                                    "--eval-batch-size",
                                    "4",
                                    "--workers",
                                    "0",
                                    "--epochs",
                                    "3",
                                    "--lr-schedule",
                                    "one_cycle:max_lr=0.01,total_steps=6",
                                    "--device",
                                    "fake:0",
                                    "--output",
                                    folder.path() / "a"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(found_in(run.err) % 2, 0);
  EXPECT_GT(found_in(run.err), 1) << run.err;
}

TEST(OutOfMemoryCommand, FindsTheBatchOfSeveralRanks) {
  const test::Folder folder;
  const CappedRun run = capped_run(
      wide(
          folder.path() / "a", {"--on-oom", "split", "--devices", "2", "--max-steps", "5"}, "auto"),
      kTooSmall);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(found_in(run.err) % 2, 0);
  EXPECT_GT(found_in(run.err), 192) << "each rank has room for more than 96, and less than 192";
  EXPECT_LT(found_in(run.err), 384);
  EXPECT_THAT(run.err, HasSubstr(", of each rank)"));
}

}  // namespace
}  // namespace muster
