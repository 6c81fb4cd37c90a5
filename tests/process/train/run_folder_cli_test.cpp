// The folder of a run as users meet it: two processes that want one, paths that look alike, going
// back, damage, resuming from elsewhere.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "muster/base/file.h"
#include "muster/base/host.h"
#include "muster/base/json.h"
#include "muster/base/process_lock.h"
#include "muster/base/text.h"

#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::Words;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_process::Launched;

constexpr std::chrono::seconds kFolderLimit{60};

Words train_in(const fs::path& output, const Words& more = {}) {
  return test::joined(test::train_uneven({"--output", output}), more);
}

struct Outcome {
  int code = -1;
  std::string err, out = {};
};

Outcome outcome(const Words& words) {
  Launched program(words);
  const auto ended = program.wait(kFolderLimit);
  return {ended.code, program.err(), program.out()};
}

void train_fully(const fs::path& output, const Words& more = {}) {
  const Outcome ended = outcome(train_in(output, more));
  ASSERT_EQ(ended.code, 0) << ended.err;
}

std::string latest(const fs::path& output) {
  return std::string(trim(read_file(output / "latest")));
}

std::string latest_model(const fs::path& output) {
  return read_file(output / "checkpoints" / latest(output) / "model.safetensors");
}

/// Words of a shell that goes to `folder` first.
Words from_folder(const fs::path& folder, const std::string& command) {
  return {"run",
          "--nproc-per-node",
          "1",
          "--",
          "sh",
          "-c",
          concat("cd '", folder.string(), "' && exec \"$0\" ", command),
          test::program_path("muster")};
}

TEST(RunFolderCommand, ASecondProcessIsRefusedByNameAndTheFirstOnesDeathFreesTheFolder) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  const Words words = train_in(output, {"--epochs", "100000", "--resume", "auto"});
  Launched first(words);
  // A line is shown before its epoch's checkpoint is written; that of the third, when the first one
  // is.
  ASSERT_TRUE(first.wait_for("epoch 3/")) << first.err();
  const std::string owner = concat("process ", first.pid(), " on host ", host_name());
  const Outcome plan = outcome({"train", "--resume", output, "--explain"});
  EXPECT_EQ(plan.code, 0) << "who only looks needs no leave: " << plan.err;
  EXPECT_THAT(plan.out, AllOf(HasSubstr("\nrefused now "), HasSubstr(owner)));
  for (const Words& second : {words, Words{"train", "--resume", output}}) {
    const Outcome refused = outcome(second);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err,
                AllOf(HasSubstr("one process at a time trains in a folder"), HasSubstr(owner)));
  }
  first.signal(SIGKILL);
  first.wait(kFolderLimit);
  const Outcome third =
      outcome({"train", "--resume", output, "--max-steps", test::latest_step(output)});
  EXPECT_EQ(third.code, 0) << third.err;
  EXPECT_FALSE(fs::exists(output / ".lock"));
}

TEST(RunFolderCommand, AFolderWhoseOwnerHasSavedNothingYetNamesTheOwner) {
  const test::Folder folder;
  LockHolder other;
  const auto lock = ProcessLock::try_acquire(folder.path() / ".lock", other);
  const Outcome refused = outcome({"train", "--resume", folder.path()});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(
      refused.err,
      AllOf(HasSubstr("nothing to resume in "),
            HasSubstr(concat("process ", ::getpid(), " on host ", host_name(), " trains there")),
            HasSubstr("hint: wait for its first checkpoint")));
}

TEST(RunFolderCommand, AFolderWhoseNameBeginsAnothersIsNotThatOne) {
  const test::Folder folder;
  const fs::path exp = folder.path() / "exp", ex = folder.path() / "ex";
  train_fully(exp, {"--epochs", "1"});
  train_fully(ex, {"--epochs", "1", "--seed", "7"});
  const std::string rows = read_file(ex / "metrics.csv");
  const Outcome refused = outcome({"train", "--resume", exp, "--output", ex, "--epochs", "2"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("does not overwrite"));
  EXPECT_EQ(read_file(ex / "metrics.csv"), rows);
}

TEST(RunFolderCommand, GoingBackKeepsWhatIsSavedNextAndSaysWhereTheFutureIs) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  train_fully(output, {"--epochs", "4", "--keep-checkpoints", "2", "--checkpoint-every", "5"});
  const std::string future = latest_model(output);
  const fs::path older = output / "checkpoints" / "step-65";
  ASSERT_TRUE(fs::exists(older)) << "of 68 steps";
  const Outcome back = outcome({"train",
                                "--resume",
                                older / "",  // as a shell completes it
                                "--lr",
                                "0.001",
                                "--max-steps",
                                "67",
                                "--keep-checkpoints",
                                "1"});
  ASSERT_EQ(back.code, 0) << back.err;
  const std::string set_aside = (output / "abandoned" / "1").string();
  EXPECT_THAT(back.err, AllOf(HasSubstr("what came after step 65"), HasSubstr(set_aside)));
  EXPECT_EQ(latest(output), "step-67");
  EXPECT_NE(latest_model(output), future);
  EXPECT_EQ(latest_model(set_aside), future);
  // Either goes on.
  for (const fs::path& run : {output, fs::path(set_aside)}) {
    const Outcome more = outcome({"train", "--resume", run, "--epochs", "5", "--max-steps", "69"});
    EXPECT_EQ(more.code, 0) << more.err;
    EXPECT_EQ(latest(run), "step-69");
  }
}

TEST(RunFolderCommand, AnotherDigitInTheStateFileIsOneClearError) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  train_fully(output, {"--epochs", "2"});
  const fs::path file = output / "checkpoints" / latest(output) / "state.json";
  std::string state = read_file(file);
  const size_t seed = state.find("\"seed\": 0");
  ASSERT_NE(seed, std::string::npos);
  state[seed + 8] = '1';
  write_file_atomic(file, state);
  const Outcome refused = outcome({"train", "--resume", output, "--epochs", "3"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr(file.string()),
                    HasSubstr("its checksum differs from its content"),
                    HasSubstr("the checkpoint before it is whole: --resume")));
}

TEST(RunFolderCommand, ResumesFromAnyFolderWithoutTheFilesThatItBeganWith) {
  const test::Folder folder;
  const fs::path place = folder.path() / "place", other = folder.path() / "other";
  fs::create_directories(place);
  fs::create_directories(other);
  train_fully(place / "first", {"--epochs", "1"});
  fs::copy_file(place / "first" / "checkpoints" / latest(place / "first") / "model.safetensors",
                place / "start.safetensors");
  const std::string words = join(test::train_uneven({"--weights", "start.safetensors"}), " ");
  const Outcome begun =
      outcome(from_folder(place, words + " --max-steps 3 --output tuned --epochs 2"));
  ASSERT_EQ(begun.code, 0) << begun.err;
  fs::remove(place / "start.safetensors");
  const Outcome resumed = outcome(
      from_folder(other, concat("train --max-steps 5 --resume ", (place / "tuned").string())));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  // The same command as at first is good, other weights are not.
  const Outcome again = outcome(from_folder(
      place, "train --weights start.safetensors --max-steps 6 --resume auto --output tuned"));
  EXPECT_EQ(again.code, 0) << again.err;
  const Outcome refused =
      outcome(from_folder(place, "train --weights else.safetensors --resume tuned"));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("weights was"), HasSubstr("else.safetensors")));
  const Outcome missing = outcome(from_folder(place, words));
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("--weights start.safetensors: there is no such file"));
  EXPECT_FALSE(fs::exists(place / "runs"));
}

TEST(RunFolderCommand, TheConfigOfAResumedRunHasWhatWasSaidLast) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  train_fully(output, {"--epochs", "1", "--lr", "0.02", "--label-smoothing", "0.1"});
  const Outcome more = outcome({"train", "--resume", output, "--epochs", "2", "--lr", "0.001"});
  ASSERT_EQ(more.code, 0) << more.err;
  EXPECT_THAT(read_file(output / "config.toml"),
              AllOf(HasSubstr("lr = 0.001"),
                    HasSubstr("epochs = 2"),
                    HasSubstr("label-smoothing = 0.1"),
                    Not(HasSubstr("0.02"))));
  const Json plan = parse_json(read_file(output / "config.json"), "config.json");
  EXPECT_EQ(plan.at("lr"), 0.001);
}

TEST(RunFolderCommand, WhatAResumeIsToldHoldsFromThenOnThoughItSavesNothing) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  train_fully(output, {"--epochs", "1"});
  const auto plan = [&] {
    const Outcome told = outcome({"train", "--resume", output, "--explain", "--json"});
    EXPECT_EQ(told.code, 0) << told.err;
    return parse_json(trim(told.out), "the plan");
  };
  const fs::path state = output / "checkpoints" / latest(output) / "state.json";
  const std::string before = read_file(state);
  EXPECT_EQ(outcome({"train", "--resume", output, "--top-k", "3", "--explain"}).code, 0);
  EXPECT_EQ(read_file(state), before) << "a plan that is only shown";
  const Outcome told = outcome({"train", "--resume", output, "--top-k", "2"});
  ASSERT_EQ(told.code, 0) << told.err;
  EXPECT_THAT(told.err, HasSubstr("after step 17: --epochs 1 is reached; a larger one"));
  EXPECT_EQ(plan().at("top_k"), 2);
  const Outcome again = outcome({"train", "--resume", output, "--top-k", "3", "--json"});
  ASSERT_EQ(again.code, 0) << again.err;
  const Json numbers = parse_json(trim(again.out), "the result");
  EXPECT_GE(numbers.at("test_top_k_accuracy"), numbers.at("test_accuracy"));
  const Outcome asked = outcome({"evaluate", output});
  EXPECT_THAT(asked.out, HasSubstr("top_k_accuracy ")) << asked.err;
}

TEST(RunFolderCommand, TheConfigOfARunThatGoesBackSaysWhatHoldsThere) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  train_fully(output, {"--epochs", "2", "--lr", "0.02"});
  const Outcome more = outcome({"train", "--resume", output, "--epochs", "3", "--lr", "0.001"});
  ASSERT_EQ(more.code, 0) << more.err;
  const Outcome back = outcome({"train", "--resume", output / "checkpoints" / "step-17"});
  ASSERT_EQ(back.code, 0) << back.err;
  EXPECT_THAT(read_file(output / "config.toml"),
              AllOf(HasSubstr("lr = 0.02"), HasSubstr("epochs = 2"), Not(HasSubstr("0.001"))));
  EXPECT_THAT(read_file(output / "abandoned/1/config.toml"), HasSubstr("lr = 0.001"));
}

// A switch has no flag that takes it back; a config file says it off.
TEST(RunFolderCommand, AConfigFileTakesBackASwitchThatTheRunBeganWith) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out", file = folder.path() / "more.toml";
  train_fully(output, {"--epochs", "1", "--deterministic", "--drop-last"});
  const auto goes_on = [&](const std::string& text, const Words& more = {}) {
    write_file_atomic(file, text);
    return outcome(test::joined({"train", "--resume", output, "--config", file}, more));
  };
  const auto is_on = [&] {
    return parse_json(read_file(output / "config.json"), "config.json").at("deterministic");
  };
  const Outcome over = goes_on("epochs = 2\ndeterministic = false\n", {"--deterministic"});
  ASSERT_EQ(over.code, 0) << over.err;
  EXPECT_EQ(is_on(), true) << "a flag wins over the file";
  const Outcome off = goes_on("epochs = 3\ndeterministic = false\n");
  ASSERT_EQ(off.code, 0) << off.err;
  EXPECT_EQ(is_on(), false);
  EXPECT_THAT(read_file(output / "config.toml"),
              AllOf(Not(HasSubstr("deterministic")), HasSubstr("drop-last = true")));
  const Outcome later = outcome({"train", "--resume", output, "--epochs", "4"});
  ASSERT_EQ(later.code, 0) << later.err;
  EXPECT_EQ(is_on(), false) << "it stays off";
  const Outcome fixed = goes_on("epochs = 5\ndrop-last = false\n");
  EXPECT_EQ(fixed.code, 2);
  EXPECT_THAT(fixed.err, HasSubstr("drop_last was on, now off"));
}

TEST(RunFolderCommand, TheConfigOfAResumedRunHasNoStrategyThatItHasNotNow) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  train_fully(output, {"--epochs", "1", "--strategy", "ddp", "--devices", "2"});
  EXPECT_THAT(read_file(output / "config.toml"), HasSubstr("strategy = \"ddp\""));
  const Outcome more =
      outcome({"train", "--resume", output, "--epochs", "2", "--device", "cpu"});  // on one rank
  ASSERT_EQ(more.code, 0) << more.err;
  EXPECT_THAT(read_file(output / "config.toml"),
              AllOf(Not(HasSubstr("strategy")),
                    Not(HasSubstr("devices")),
                    HasSubstr("device = \"cpu\""),
                    HasSubstr("epochs = 2")));
  const Json plan = parse_json(read_file(output / "config.json"), "config.json");
  EXPECT_EQ(plan.at("strategy"), "single");
}

TEST(RunFolderCommand, ARefusedResumeLeavesTheRecordsOfTheRun) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  const Outcome begun = outcome(
      test::on_ranks(2, train_in(output, {"--epochs", "1", "--strategy", "zero1:dtype=bfloat16"})));
  ASSERT_EQ(begun.code, 0) << begun.err;
  const auto records = [&] {
    std::vector<std::string> all;
    for (const char* name :
         {"config.json", "config.toml", "metrics.csv", "metrics.jsonl", "latest"})
      all.push_back(read_file(output / name));
    return all;
  };
  const std::vector<std::string> before = records();
  // Its weights are bfloat16, which only shards of these strategies go on with.
  for (const Words& more : {Words{"--strategy", "single"}, Words{"--batch-size", "13"}}) {
    const Outcome refused =
        outcome(test::joined({"train", "--resume", output, "--epochs", "9"}, more));
    EXPECT_EQ(refused.code, 2) << refused.err;
    EXPECT_EQ(records(), before) << more[1];
  }
}

TEST(RunFolderCommand, ALimitBehindTheRunIsRefusedAndStandsInNoRecord) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  train_fully(output, {"--epochs", "3"});
  const auto records = [&] {
    std::vector<std::string> all;
    for (const char* name : {"config.json", "config.toml", "metrics.csv", "index.html", "latest"})
      all.push_back(read_file(output / name));
    return all;
  };
  const std::vector<std::string> before = records();
  for (const auto& [flag, limit, done] :
       {std::tuple{"--epochs", "2", "3 epochs"}, {"--max-steps", "50", "51 steps"}}) {
    const Outcome refused = outcome({"train", "--resume", output, flag, limit});
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err,
                HasSubstr(concat(flag,
                                 ": a run goes on to a limit that is not behind it (got ",
                                 limit,
                                 ", after ",
                                 done,
                                 ")")));
    EXPECT_EQ(records(), before) << flag;
  }
  const Outcome there = outcome({"train", "--resume", output, "--epochs", "3"});
  EXPECT_EQ(there.code, 0) << "a limit that is reached: nothing is to do; " << there.err;
}

TEST(RunFolderCommand, WhatLiesInTheCurrentFolderIsNobodysRunUnlessItIsNamed) {
  for (const char* name : {"latest", "state.json"}) {
    const test::Folder folder;
    write_file_atomic(folder.path() / name, "mine\n");
    const Outcome ended =
        outcome(from_folder(folder.path(), join(test::train_uneven({"--epochs", "1"}), " ")));
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_TRUE(fs::exists(folder.path() / "runs" / "mlp-synthetic" / "latest"));
    EXPECT_EQ(read_file(folder.path() / name), "mine\n");
  }
}

TEST(RunFolderCommand, ARunThatIsRefusedLeavesNoFolder) {
  const test::Folder folder;
  const Outcome refused = outcome(train_in(folder.path() / "a" / "b", {"--batch-size", "0"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(RunFolderCommand, ExplainNamesTheThreads) {
  Launched program(test::train_uneven({"--explain"}), {.environment = {"OMP_NUM_THREADS=1"}});
  EXPECT_EQ(program.wait(kFolderLimit).code, 0) << program.err();
  EXPECT_THAT(program.out(), HasSubstr("\nthreads       1 per rank"));
}

}  // namespace
}  // namespace muster
