// Of ranks that fail one because of the other, or one shortly after the other, `muster run` names
// the one that was first, whichever process it sees end first.
#include <cmath>
#include <filesystem>
#include <optional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "muster/base/text.h"

#include "tests/support/blows.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster::testing_process {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kBlows = 200;
constexpr int kRanksOfJob = 3;
constexpr std::chrono::seconds kJobLimit(60);

struct Failure {
  std::string how;
  bool has_second;  // another rank fails by itself meanwhile, and ends sooner
};

/// What the launcher may go by: a report, or else that the others name the rank.
const Failure kFailures[] = {{"throw", false},
                             {"catch", false},
                             {"note", false},
                             {"tell", false},
                             {"exit", false},
                             {"segv", false},
                             {"throw", true},
                             {"note", true}};

/// From 1 ms to 2 s, as many of each order of magnitude.
int late_ms(double share) { return static_cast<int>(std::lround(std::pow(2000.0, share))); }

/// What the launcher concludes: from "error: rank" on.
std::string conclusion(const std::string& err) {
  const size_t at = err.rfind("error: rank ");
  return at == std::string::npos ? "" : err.substr(at);
}

TEST(FirstCause, IsNamedThoughItsEndIsSeenLater) {
  const unsigned seed = test::seed_of_test();
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  const int jobs = test::count_of_blows(kBlows);
  std::mt19937 random(seed);
  test::Spread kinds(std::size(kFailures), random), ranks(kRanksOfJob, random), backends(2, random),
      lateness(jobs, random);
  const test::Folder folder;
  const std::string fifo = (folder.path() / "failed").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (int job = 0; job < jobs; ++job) {
    const Failure& failure = kFailures[kinds.part()];
    const int first = ranks.part();
    const std::string backend = backends.part() == 0 ? "gloo" : "shm";
    const int late = late_ms(lateness.share());
    std::vector<std::string> hows(kRanksOfJob, failure.how == "tell" ? "told" : "go-on");
    hows[size_t(first)] = concat(failure.how, ":", late);
    if (failure.has_second) hows[size_t((first + 1) % kRanksOfJob)] = "second";
    SCOPED_TRACE(concat("job ", job, ": ", backend, " ", join(hows, ",")));
    Launched launched(
        {"run",
         "--nproc-per-node",
         std::to_string(kRanksOfJob),
         "--",
         test::program_path("muster_failing_rank"),
         backend,
         join(hows, ",")},
        {.environment = failure.has_second ? std::vector<std::string>{"MUSTER_TEST_FIFO=" + fifo}
                                           : std::vector<std::string>{}});
    EXPECT_EQ(launched.wait(kJobLimit).code, 1) << launched.err();
    const std::string said = conclusion(launched.err());
    EXPECT_THAT(said, HasSubstr(concat("error: rank ", first, " (pid "))) << launched.err();
    EXPECT_THAT(said, AllOf(HasSubstr("my own error"), Not(HasSubstr("not the first"))))
        << launched.err();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace muster::testing_process
