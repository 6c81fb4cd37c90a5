// Strategies of `muster train` as a user runs them: real processes, killed and resumed with others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::on_ranks;
using test::Words;
using ::testing::HasSubstr;
using testing_process::Launched;

constexpr std::chrono::seconds kStrategyLimit{60};

std::string latest_file(const fs::path& output, const char* name) {
  return read_file(output / "checkpoints" / trim(read_file(output / "latest")) / name);
}

TEST(StrategyCommand, ListsThemWithTheirParameters) {
  Launched program({"list", "strategies", "--json"});
  ASSERT_EQ(program.wait(kStrategyLimit).code, 0) << program.err();
  const Json rows = Json::parse(program.out());
  std::vector<std::string> names;
  for (const Json& row : rows) names.push_back(row.at("name"));
  EXPECT_THAT(
      names,
      ::testing::IsSupersetOf({"ddp", "dp", "fsdp", "pipeline", "single", "zero1", "zero2"}));
}

TEST(StrategyCommand, SaysWhatAPipelineTakes) {
  Launched program({"list", "strategies", "--json"});
  ASSERT_EQ(program.wait(kStrategyLimit).code, 0) << program.err();
  EXPECT_THAT(program.out(), HasSubstr("an SVG or PNG file: who did what when"));
  EXPECT_THAT(program.out(), HasSubstr("names the stage that stalled"));
}

TEST(StrategyCommand, DpTrainsInOneProcessWhatDdpTrainsInTwo) {
  const test::Folder folder;
  const fs::path dp = folder.path() / "dp", ddp = folder.path() / "ddp";
  Launched threads(
      test::train_uneven({"--strategy", "dp", "--devices", "2", "--epochs", "2", "--output", dp}),
      {.environment = {"OMP_NUM_THREADS=2"}});  // one for each rank, as below
  ASSERT_EQ(threads.wait(kStrategyLimit).code, 0) << threads.err();
  EXPECT_THAT(threads.err(), HasSubstr("dp on 2 ranks (threads)"));
  EXPECT_THAT(threads.out(), HasSubstr("test accuracy"));
  Launched processes(on_ranks(2, test::train_uneven({"--epochs", "2", "--output", ddp})),
                     {.environment = {"OMP_NUM_THREADS=1"}});
  ASSERT_EQ(processes.wait(kStrategyLimit).code, 0) << processes.err();
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "rng.safetensors"})
    EXPECT_TRUE(latest_file(dp, name) == latest_file(ddp, name)) << name;
}

TEST(StrategyCommand, CtrlCSavesADpRunAndDdpGoesOnWithIt) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  Launched program(
      test::train_uneven({"--devices", "3", "--epochs", "100000", "--output", output}));
  ASSERT_TRUE(program.wait_for("epoch 2/")) << program.err();
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(kStrategyLimit).code, 130) << program.err();
  EXPECT_THAT(program.err(), HasSubstr("interrupted after step"));
  EXPECT_THAT(program.err(),
              HasSubstr(concat("hint: go on with `muster train --resume ",
                               output.string(),
                               " --devices 3 --workers 0`")));
  EXPECT_TRUE(program.nothing_left());
  Launched resumed(
      on_ranks(2, {"train", "--resume", output, "--max-steps", test::latest_step(output)}));
  EXPECT_EQ(resumed.wait(kStrategyLimit).code, 0) << resumed.err();
  EXPECT_THAT(resumed.err(), HasSubstr("ddp on 2 ranks"));
}

TEST(StrategyCommand, DpIsRefusedUnderTheLauncher) {
  Launched program(on_ranks(2, test::train_uneven({"--strategy", "dp", "--devices", "2"})));
  EXPECT_EQ(program.wait(kStrategyLimit).code, 2);
  EXPECT_THAT(program.err(),
              HasSubstr("--strategy dp: its ranks are threads of one process (got 2 processes)"));
}

TEST(StrategyCommand, NamesTheRankOfAnError) {
  const test::Folder folder;
  Launched program(
      test::train_uneven({"--devices", "2", "--lr", "1e30", "--output", folder.path() / "out"}));
  EXPECT_EQ(program.wait(kStrategyLimit).code, 1);
  EXPECT_THAT(program.err(), ::testing::ContainsRegex("rank [01]: the loss is not finite"));
}

/// Kills a random rank's process (SIGKILL) once `seen` was read `times` times.
void kill_rank(Launched& job, int rank, std::string_view seen, int times) {
  ASSERT_TRUE(job.wait_for(seen, times)) << job.err();
  const auto ranks = job.ranks();
  ASSERT_GT(ranks.size(), static_cast<size_t>(rank)) << job.err();
  ::kill(ranks[static_cast<size_t>(rank)], SIGKILL);
  EXPECT_EQ(job.wait(kStrategyLimit).code, 1) << job.err();
  EXPECT_TRUE(job.nothing_left());
}

// On several machines each is told by itself.
TEST(StrategyCommand, RefusesRanksThatWereToldUnlikeThings) {
  const test::Folder folder;
  const std::string words =
      join(test::train_uneven({"--epochs", "1", "--output", folder.path() / "out"}), " ");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--lr 0.0$((RANK+1))", "lr 0.01 on rank 0, 0.02 on rank 1"},
      {"--strategy $([ $RANK = 0 ] && echo ddp || echo zero2)",
       "strategy ddp on rank 0, zero2 on rank 1"},
      {"--seed $RANK --precision $([ $RANK = 0 ] && echo 32 || echo bf16-mixed)",
       "precision 32 on rank 0, bf16-mixed on rank 1; seed 0 on rank 0, 1 on rank 1"},
  };
  for (const auto& [flags, says] : cases) {
    SCOPED_TRACE(flags);
    Launched program({"run",
                      "--nproc-per-node",
                      "2",
                      "--",
                      "sh",
                      "-c",
                      concat("exec ", test::program_path("muster"), ' ', words, ' ', flags)});
    EXPECT_NE(program.wait(kStrategyLimit).code, 0);
    EXPECT_THAT(program.err(), HasSubstr(concat("all ranks train alike (got ", says, ")")));
    EXPECT_FALSE(fs::exists(folder.path() / "out" / "metrics.csv"));
  }
  Launched of_each(
      {"run",
       "--nproc-per-node",
       "2",
       "--",
       "sh",
       "-c",
       concat(
           "export OMP_NUM_THREADS=$((RANK+1)); exec ", test::program_path("muster"), ' ', words)});
  EXPECT_EQ(of_each.wait(kStrategyLimit).code, 0) << of_each.err();
}

TEST(ZeroCommand, AKilledRunGoesOnWithOtherRanksAndStrategies) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  const auto endless = [&](const char* strategy) {
    return test::train_uneven({"--strategy",
                               strategy,
                               "--optimizer",
                               "adamw",
                               "--epochs",
                               "100000",
                               "--checkpoint-every",
                               "5",
                               "--resume",
                               "auto",
                               "--output",
                               output});
  };
  {
    Launched job(on_ranks(3, endless("zero2")));
    kill_rank(job, 1, "epoch ", 2);
    EXPECT_THAT(job.err(), HasSubstr("zero2 on 3 ranks"));
  }
  {
    Launched job(on_ranks(2, endless("zero1")));
    kill_rank(job, 0, "epoch ", 2);
    EXPECT_THAT(job.err(), HasSubstr("resuming after step"));
  }
  {
    Launched job(on_ranks(2, endless("ddp")));
    kill_rank(job, 1, "epoch ", 2);
    EXPECT_THAT(job.err(), HasSubstr("resuming after step"));
  }
  Launched last({"train", "--resume", output, "--max-steps", test::latest_step(output)});
  EXPECT_EQ(last.wait(kStrategyLimit).code, 0) << last.err();
  EXPECT_THAT(last.err(), HasSubstr("single on 1 rank"));
}

TEST(ZeroCommand, AKilledRunEndsByteEqualToAnUnbrokenOne) {
  const test::Folder folder;
  const auto words = [&](const fs::path& output, const std::string& steps) {
    return on_ranks(2,
                    test::train_uneven({"--strategy",
                                        "zero2:bucket_mb=1",
                                        "--epochs",
                                        "100000",
                                        "--max-steps",
                                        steps,
                                        "--checkpoint-every",
                                        "5",
                                        "--resume",
                                        "auto",
                                        "--output",
                                        output}));
  };
  const fs::path whole = folder.path() / "whole", broken = folder.path() / "broken";
  for (const int rank : {0, 1}) {
    Launched job(words(broken, "0"));  // endless: it is there whenever the blow falls
    kill_rank(job, rank, "epoch ", 2);
  }
  const std::string steps = concat(to_int(test::latest_step(broken)).value() + 23);
  for (const fs::path& output : {broken, whole}) {
    Launched job(words(output, steps));
    ASSERT_EQ(job.wait(kStrategyLimit).code, 0) << job.err();
    EXPECT_EQ(test::latest_step(output), steps);
    const auto resumes = HasSubstr("resuming after step");
    EXPECT_EQ(::testing::Value(job.err(), resumes), output == broken) << job.err();
  }
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "rng.safetensors"})
    EXPECT_TRUE(latest_file(whole, name) == latest_file(broken, name)) << name;
}

}  // namespace
}  // namespace muster
