// `shm` between real processes: equal gradients, and nothing left whoever is killed, whenever.
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include "muster/base/text.h"

#include "tests/support/launched.h"

namespace muster::testing_process {
namespace {

using ::testing::HasSubstr;

/// Ranks that saw one die say so, and end; the others are ended after `grace_s`.
std::vector<std::string> job(int ranks,
                             const std::string& mode,
                             const std::string& backend,
                             int grace_s = 30) {
  return {"run",
          "--nproc-per-node",
          std::to_string(ranks),
          "--shutdown-timeout",
          std::to_string(grace_s),
          "--",
          MUSTER_TEST_BIN_DIR "/muster_shm_rank",
          mode,
          backend};
}

/// Names in /dev/shm of groups (muster-PID-…) whose process has ended. Those of other jobs on this
/// machine come and go.
std::set<std::string> files_left() {
  std::set<std::string> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", none)) {
    const std::string name = entry.path().filename();
    const std::vector<std::string> parts = split(name, '-');
    const auto pid = parts.size() > 1 && parts[0] == "muster" ? to_int(parts[1]) : std::nullopt;
    const bool has_ended = pid && ::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH;
    if (has_ended) found.insert(name);
  }
  return found;
}

std::set<std::string> parameters_after(const std::string& backend) {
  Launched launched(job(2, "ddp", backend));
  EXPECT_EQ(launched.wait(std::chrono::seconds(120)).code, 0) << launched.err() << launched.out();
  std::set<std::string> bits;
  for (const std::string& line : split(launched.out(), '\n')) {
    const size_t at = line.find("parameters ");
    if (at != std::string::npos) bits.insert(line.substr(at));
  }
  return bits;
}

TEST(ShmProcesses, TrainToTheSameBitsOnAllRanksAndAsOverGloo) {
  const auto shm = parameters_after("shm");
  EXPECT_EQ(shm.size(), 1U);                 // one line, said by both
  EXPECT_EQ(shm, parameters_after("gloo"));  // the sum of two does not depend on their order
}

TEST(ShmProcesses, LeaveNothingAndNameTheDeadWhoeverIsKilledWhenever) {
  const bool soak = std::getenv("MUSTER_SOAK") != nullptr;
  const char* given = std::getenv("MUSTER_TEST_SEED");
  const unsigned seed = given != nullptr ? unsigned(std::atoi(given)) : std::random_device{}();
  std::mt19937 random(seed);
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  const auto before = files_left();
  for (int i = 0; i < (soak ? 200 : 6); ++i) {
    const int world = 2 + int(random() % 2);
    // Every third blow falls somewhere between the start and the first sum, where nobody can know.
    const bool early = i % 3 == 2;
    Launched launched(job(world, "sum", "shm", early ? 3 : 30));
    if (!early) {
      ASSERT_TRUE(launched.wait_for("ready", world)) << launched.err() << launched.out();
    }
    ::poll(nullptr, 0, int(random() % (early ? 400 : 20)));  // the random instant
    const auto ranks = launched.ranks();
    if (ranks.empty()) continue;
    const pid_t victim = ranks[random() % ranks.size()];
    SCOPED_TRACE(concat("job ", i, ", process ", victim, early ? " early" : ""));
    ::kill(victim, SIGKILL);
    EXPECT_EQ(launched.wait(std::chrono::seconds(120)).code, 1);
    EXPECT_TRUE(launched.nothing_left());
    EXPECT_EQ(files_left(), before);
    if (early) continue;
    EXPECT_THAT(launched.out(),
                HasSubstr(concat("its process ", victim, " was killed or crashed")));
    size_t saw = 0, dead = 0;
    for (const std::string& line : split(launched.out(), '\n')) {
      saw += line.find("saw: ") != std::string::npos;
      dead +=
          line.find("is dead") != std::string::npos || line.find("has failed") != std::string::npos;
    }
    EXPECT_EQ(saw, size_t(world) - 1) << launched.out();
    EXPECT_EQ(dead, size_t(world) - 1) << launched.out();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace muster::testing_process
