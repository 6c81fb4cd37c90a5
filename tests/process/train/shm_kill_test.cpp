// `shm` between real processes: equal gradients, and nothing left whoever is killed, whenever.
#include <filesystem>
#include <set>

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include "muster/base/text.h"

#include "tests/support/blows.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster::testing_process {
namespace {

using Clock = std::chrono::steady_clock;
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
          test::program_path("muster_shm_rank"),
          mode,
          backend};
}

/// Names in /dev/shm of groups (muster-PID-RANDOM) whose process has ended. Those of other jobs on this
/// machine come and go, and so does what other programs name muster-….
std::set<std::string> files_left() {
  std::set<std::string> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", none)) {
    const std::string name = entry.path().filename();
    const std::vector<std::string> parts = split(name, '-');
    const auto pid = parts.size() == 3 && parts[0] == "muster" ? to_int(parts[1]) : std::nullopt;
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
  const unsigned seed = test::seed_of_test();
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  std::mt19937 random(seed);
  const int blows = test::count_of_blows(200);
  // Every third blow falls somewhere between the start and the first sum, where nobody can know.
  test::Spread early_instants(std::max(1, blows / 3), random);
  test::Spread instants(std::max(1, blows - blows / 3), random);
  double start_ms = 0;  // what the first job took until its ranks were ready
  const auto before = files_left();
  for (int i = 0; i < blows; ++i) {
    const int world = 2 + int(random() % 2);
    const bool early = i % 3 == 2;
    const auto start = Clock::now();
    Launched launched(job(world, "sum", "shm", early ? 3 : 30));
    if (!early) {
      ASSERT_TRUE(launched.wait_for("ready", world)) << launched.err() << launched.out();
      if (i == 0)
        start_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    }
    ::poll(nullptr, 0, int(early ? start_ms * early_instants.share() : 20 * instants.share()));
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
