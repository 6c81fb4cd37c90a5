// Strategies of `muster train` as a user runs them: real processes, killed and resumed with others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/folder.h"
#include "tests/process/launched.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing_process::Launched;
using Words = std::vector<std::string>;

constexpr std::chrono::seconds kLimit{60};

Words train(const Words& more) {
  Words words{"train",
              "--data",
              "synthetic:samples=220,test_samples=60,size=8,classes=4",
              "--model",
              "mlp:hidden=16",
              "--batch-size",
              "12",
              "--workers",
              "0"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words on_ranks(int ranks, Words words) {
  words.insert(words.begin(), {"run", "--nproc-per-node", std::to_string(ranks), "--", "muster"});
  return words;
}

std::string latest_file(const fs::path& output, const char* name) {
  return read_file(output / "checkpoints" / trim(read_file(output / "latest")) / name);
}

TEST(StrategyCommand, ListsThemWithTheirParameters) {
  Launched program({"list", "strategies", "--json"});
  ASSERT_EQ(program.wait(kLimit).code, 0) << program.err();
  const Json rows = Json::parse(program.out());
  std::vector<std::string> names;
  for (const Json& row : rows) names.push_back(row.at("name"));
  EXPECT_THAT(names, ::testing::IsSupersetOf({"ddp", "dp", "single"}));
}

TEST(StrategyCommand, DpTrainsInOneProcessWhatDdpTrainsInTwo) {
  const test::Folder folder;
  const fs::path dp = folder.path() / "dp", ddp = folder.path() / "ddp";
  Launched threads(train({"--strategy", "dp", "--devices", "2", "--epochs", "2", "--output", dp}),
                   {.environment = {"OMP_NUM_THREADS=2"}});  // one for each rank, as below
  ASSERT_EQ(threads.wait(kLimit).code, 0) << threads.err();
  EXPECT_THAT(threads.err(), HasSubstr("dp on 2 ranks (threads)"));
  EXPECT_THAT(threads.out(), HasSubstr("test accuracy"));
  Launched processes(on_ranks(2, train({"--epochs", "2", "--output", ddp})));
  ASSERT_EQ(processes.wait(kLimit).code, 0) << processes.err();
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "rng.safetensors"})
    EXPECT_TRUE(latest_file(dp, name) == latest_file(ddp, name)) << name;
}

TEST(StrategyCommand, CtrlCSavesADpRunAndDdpGoesOnWithIt) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  Launched program(train({"--devices", "3", "--epochs", "100000", "--output", output}));
  ASSERT_TRUE(program.wait_for("epoch 2/")) << program.err();
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(kLimit).code, 130) << program.err();
  EXPECT_THAT(program.err(), HasSubstr("interrupted after step"));
  EXPECT_TRUE(program.nothing_left());
  Launched resumed(on_ranks(2, {"train", "--resume", output, "--max-steps", "1"}));
  EXPECT_EQ(resumed.wait(kLimit).code, 0) << resumed.err();
  EXPECT_THAT(resumed.err(), HasSubstr("ddp on 2 ranks"));
}

TEST(StrategyCommand, DpIsRefusedUnderTheLauncher) {
  Launched program(on_ranks(2, train({"--strategy", "dp", "--devices", "2"})));
  EXPECT_EQ(program.wait(kLimit).code, 2);
  EXPECT_THAT(program.err(),
              HasSubstr("--strategy dp: its ranks are threads of one process (got 2 processes)"));
}

TEST(StrategyCommand, NamesTheRankOfAnError) {
  const test::Folder folder;
  Launched program(train({"--devices", "2", "--lr", "1e30", "--output", folder.path() / "out"}));
  EXPECT_EQ(program.wait(kLimit).code, 1);
  EXPECT_THAT(program.err(), ::testing::ContainsRegex("rank [01]: the loss is not finite"));
}

}  // namespace
}  // namespace muster
