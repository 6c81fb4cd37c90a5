// Pipelines of real processes, with replicas and without: whoever is killed, whenever, the others end
// and say who it was.
#include <algorithm>
#include <array>
#include <random>
#include <regex>
#include <string>
#include <vector>

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

TEST(PipelineProcesses, NameTheDeadWhoeverIsKilledWhenever) {
  const unsigned seed = test::seed_of_test();
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  std::mt19937 random(seed);
  const std::array<std::string, 5> schedules{"gpipe", "1f1b", "interleaved", "zb1p", "zbv"};
  const int blows = test::count_of_blows(200);
  test::Spread instants(blows, random);
  for (int i = 0; i < blows && !::testing::Test::HasFailure(); ++i) {
    const std::string schedule = schedules[random() % schedules.size()];
    const std::string backend = random() % 3 == 0 ? "gloo" : "shm";
    const int world = random() % 2 == 0 ? 2 : 4;
    Launched launched({"run",
                       "--nproc-per-node",
                       std::to_string(world),
                       "--shutdown-timeout",
                       "60",
                       "--",
                       test::program_path("muster_shm_rank"),
                       schedule,
                       backend});
    ASSERT_TRUE(launched.wait_for("ready", world)) << launched.err() << launched.out();
    ::poll(nullptr, 0, int(30 * instants.share()));
    const auto ranks = launched.ranks();
    ASSERT_EQ(int(ranks.size()), world);
    const pid_t victim = ranks[random() % ranks.size()];
    SCOPED_TRACE(concat(
        "job ", i, ": ", schedule, " over ", backend, ", ", world, " ranks, process ", victim));
    ::kill(victim, SIGKILL);
    EXPECT_EQ(launched.wait(std::chrono::seconds(120)).code, 1);
    EXPECT_TRUE(launched.nothing_left());
    // By its process, or by its rank, which the launcher tells.
    std::smatch found;
    const std::string err = launched.err();
    ASSERT_TRUE(
        std::regex_search(err, found, std::regex(concat("rank (\\d) \\(pid ", victim, "\\)"))))
        << err;
    const std::vector<std::string> names{concat("process ", victim, " "),
                                         concat("is rank ", found[1].str(), " of the world")};
    int named = 0;
    for (const std::string& line : split(launched.out(), '\n'))
      named += line.find("saw: ") != std::string::npos &&
               std::ranges::any_of(names, [&](const std::string& name) {
                 return line.find(name) != std::string::npos;
               });
    EXPECT_EQ(named, world - 1) << launched.out();
  }
}

}  // namespace
}  // namespace muster::testing_process
