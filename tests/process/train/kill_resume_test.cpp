// Trainings that are killed at random instants, again and again, and started anew by the very same
// command until they end: what they leave equals an unbroken run byte for byte.
#include <cstdlib>
#include <map>
#include <random>
#include <sstream>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/support/folder.h"
#include "tests/support/launched.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using testing_process::Launched;
using Words = std::vector<std::string>;

constexpr int kKills = 50;                   // of each of the four kinds below: 200 in all
constexpr std::chrono::seconds kLimit{180};  // of a run; it writes some 500 files

struct Kind {
  const char* name;
  int ranks;
  int workers;
  Words flags;
};

Words command(const Kind& kind, const fs::path& output) {
  Words words{"train",
              "--data",
              "synthetic:samples=1200,test_samples=60,size=8,classes=4",
              "--epochs",
              "6",
              "--batch-size",
              "16",
              "--checkpoint-every",
              "7",
              "--log-every",
              "10",
              "--resume",
              "auto",
              "--output",
              output,
              "--workers",
              std::to_string(kind.workers)};
  words.insert(words.end(), kind.flags.begin(), kind.flags.end());
  if (kind.ranks > 1) {
    const Words launcher{"run",
                         "--nproc-per-node",
                         std::to_string(kind.ranks),
                         "--shutdown-timeout",
                         "0.3",
                         "--",
                         "muster"};
    words.insert(words.begin(), launcher.begin(), launcher.end());
  }
  return words;
}

/// All of a finished run that does not tell the time, by name.
std::map<std::string, std::string> remains(const fs::path& output) {
  const std::string latest(trim(read_file(output / "latest")));
  std::map<std::string, std::string> all{{"latest", latest}, {"best", read_file(output / "best")}};
  for (const char* part : {"model", "optimizer", "rng"}) {
    const std::string name = concat(part, ".safetensors");
    all[name] = read_file(output / "checkpoints" / latest / name);
  }
  std::istringstream rows(read_file(output / "metrics.csv"));
  for (std::string row; std::getline(rows, row);) {
    size_t end = 0;  // step,epoch,phase,loss,accuracy,lr
    for (int comma = 0; comma < 6; ++comma) end = row.find(',', end) + 1;
    all["metrics.csv"] += row.substr(0, end) + '\n';
  }
  return all;
}

void expect_same(const fs::path& output, const std::map<std::string, std::string>& want) {
  for (const auto& [name, bytes] : remains(output)) {
    if (bytes == want.at(name)) continue;
    const bool text = name.find("safetensors") == std::string::npos;
    ADD_FAILURE() << name << " differs" << (text ? ": " + bytes + "\nwant: " + want.at(name) : "");
  }
}

/// Starts the command until it ends by itself; kills it on the way. Returns how often.
int run_through_kills(const Kind& kind, const fs::path& output, std::mt19937& random, int most) {
  int kills = 0;
  while (true) {
    Launched job(command(kind, output));
    const bool spared = kills >= most;
    if (!spared) {
      ::poll(nullptr, 0, 150 + static_cast<int>(random() % 700));  // the random instant
      const std::vector<pid_t> victims = job.processes();
      if (!victims.empty()) ::kill(victims[random() % victims.size()], SIGKILL);
    }
    const auto ended = job.wait(kLimit);
    EXPECT_TRUE(job.nothing_left());
    if (ended.code == 0) return kills;
    EXPECT_FALSE(spared) << job.err();
    // Exit code 2 would be a checkpoint that cannot be used.
    EXPECT_NE(ended.code, 2) << job.err();
    if (::testing::Test::HasFailure()) return kills;
    ++kills;
  }
}

class RandomKills : public ::testing::TestWithParam<Kind> {};

TEST_P(RandomKills, ResumeAlwaysWorksAndEndsByteEqualToAnUnbrokenRun) {
  const Kind& kind = GetParam();
  const char* given = std::getenv("MUSTER_TEST_SEED");
  const unsigned seed = given != nullptr ? unsigned(std::atoi(given)) : std::random_device{}();
  std::mt19937 random(seed);
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  const test::Folder folder;
  Launched unbroken(command(kind, folder.path() / "unbroken"));
  ASSERT_EQ(unbroken.wait(kLimit).code, 0) << unbroken.err();
  const auto want = remains(folder.path() / "unbroken");
  for (int kills = 0, run = 0; kills < kKills; ++run) {
    const fs::path output = folder.path() / concat("run-", run);
    kills += run_through_kills(kind, output, random, kKills - kills);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "after " << kills << " kills";
    expect_same(output, want);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "run " << run << ", " << kills << " kills";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of,
    RandomKills,
    ::testing::Values(
        Kind{"OneRankInlineLoading",
             1,
             0,
             {"--model",
              "mlp:hidden=64",
              "--optimizer",
              "adamw",
              "--lr-schedule",
              "cosine:warmup=20"}},
        Kind{"OneRankOneWorker",
             1,
             1,
             {"--model", "cnn:width=4,hidden=16", "--accumulate-grad-batches", "2"}},
        Kind{"OneRankThreeWorkers",
             1,
             3,
             {"--model",
              "mlp:hidden=32,layers=3",
              "--optimizer",
              "adam",
              "--lr-schedule",
              "plateau:patience=0"}},
        Kind{"TwoRanks", 2, 1, {"--model", "cnn:width=4,hidden=16", "--gradient-clip-val", "1"}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace muster
