// Trainings that are killed at random instants, again and again, and started anew by the very same
// command until they end: what they leave equals an unbroken run byte for byte.
#include <map>
#include <random>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/process/train/train_words.h"
#include "tests/support/blows.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/metrics_rows.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using test::Words;
using testing_process::Launched;

constexpr int kKinds = 5;
constexpr int kKills = 200;                     // of all kinds together
constexpr std::chrono::seconds kRunLimit{180};  // of a run; it writes some 500 files

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
  all["metrics.csv"] = test::rows_without_time(output);
  return all;
}

void expect_same(const fs::path& output, const std::map<std::string, std::string>& want) {
  for (const auto& [name, bytes] : remains(output)) {
    if (bytes == want.at(name)) continue;
    const bool text = name.find("safetensors") == std::string::npos;
    ADD_FAILURE() << name << " differs" << (text ? ": " + bytes + "\nwant: " + want.at(name) : "");
  }
}

/// When and whom blows hit.
struct Blows {
  explicit Blows(unsigned seed, int most)
      : random(seed), left(most), instants(std::min(most, 10), random) {}

  /// A random instant of a run, from the start of its first process to its end, then a random
  /// process.
  void strike(const Launched& job) {
    ::poll(nullptr, 0, static_cast<int>(instants.share() * run_ms));
    const std::vector<pid_t> victims = job.processes();
    if (!victims.empty()) ::kill(victims[random() % victims.size()], SIGKILL);
  }

  std::mt19937 random;
  int left;
  test::Spread instants;
  double run_ms = 0;  ///< what an unbroken run takes on this machine
};

/// Starts the command until it ends by itself; kills it on the way.
void run_through_kills(const Kind& kind, const fs::path& output, Blows& blows) {
  while (true) {
    Launched job(command(kind, output));
    const bool spared = blows.left == 0;
    if (!spared) blows.strike(job);
    const auto ended = job.wait(kRunLimit);
    EXPECT_TRUE(job.nothing_left());
    if (ended.code == 0) return;
    EXPECT_FALSE(spared) << job.err();
    // Exit code 2 would be a checkpoint that cannot be used.
    EXPECT_NE(ended.code, 2) << job.err();
    if (::testing::Test::HasFailure()) return;
    --blows.left;
  }
}

class RandomKills : public ::testing::TestWithParam<Kind> {};

TEST_P(RandomKills, ResumeAlwaysWorksAndEndsByteEqualToAnUnbrokenRun) {
  const Kind& kind = GetParam();
  const unsigned seed = test::seed_of_test();
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  Blows blows(seed, std::max(1, test::count_of_blows(kKills) / kKinds));
  const test::Folder folder;
  const auto start = Clock::now();
  Launched unbroken(command(kind, folder.path() / "unbroken"));
  ASSERT_EQ(unbroken.wait(kRunLimit).code, 0) << unbroken.err();
  blows.run_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  const auto want = remains(folder.path() / "unbroken");
  for (int run = 0; blows.left > 0; ++run) {
    SCOPED_TRACE(concat("run ", run, ", ", blows.left, " blows left at its start"));
    const fs::path output = folder.path() / concat("run-", run);
    run_through_kills(kind, output, blows);
    ASSERT_FALSE(::testing::Test::HasFailure());
    expect_same(output, want);
    ASSERT_FALSE(::testing::Test::HasFailure());
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
        Kind{"TwoRanks", 2, 1, {"--model", "cnn:width=4,hidden=16", "--gradient-clip-val", "1"}},
        Kind{"TwoStages",
             2,
             1,
             {"--model",
              "cnn:width=4,hidden=16",
              "--optimizer",
              "adamw",
              "--strategy",
              "pipeline:split=0/2,micro_batches=2"}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace muster
