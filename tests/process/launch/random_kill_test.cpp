// Jobs that are each hit by a random signal at a random instant in a random place.
#include <algorithm>
#include <chrono>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include "muster/base/text.h"

#include "tests/support/blows.h"
#include "tests/support/launched.h"

namespace muster::testing_process {
namespace {

using Clock = std::chrono::steady_clock;
using test::Spread;

constexpr int kJobs = 100;                  // at least; a third of the blows
constexpr std::chrono::seconds kTime(200);  // hit a job that ran: if not, more fall for so long
constexpr double kLeastWindowMs = 50;       // in which a blow falls, from the start of its job
constexpr double kMostWindowMs = 3000;

/// What was done to a job, and with which ends it agrees.
struct Blow {
  std::string what = "nothing";
  bool (*agrees)(const Ended&) = [](const Ended& ended) { return ended.code == 0; };
};

/// Where a blow falls, and which signal it is; of a dozen, each kind comes twice.
struct Draws {
  explicit Draws(unsigned seed, int jobs)
      : random(seed),
        instants(jobs, random),
        ranks(3, random),
        places(5, random),
        signals(4, random) {}

  std::mt19937 random;
  Spread instants, ranks, places, signals;
};

Blow strike(Launched& job, Draws& draws) {
  switch (const int place = draws.places.part()) {
    case 0: {
      job.signal(SIGKILL);
      return {"SIGKILL to the launcher",
              [](const Ended& e) { return e.signal == SIGKILL || e.code == 0; }};
    }
    case 1: {
      const int signals[] = {SIGINT, SIGHUP, SIGQUIT, SIGTERM};
      const int signal = signals[draws.signals.part()];
      job.signal(signal);
      // Before the launcher takes signals it dies of them, like any program; after the last rank
      // ended they are late.
      return {concat("signal ", signal, " to the launcher"),
              [](const Ended& e) { return e.code > 128 || e.code == 0 || e.signal != 0; }};
    }
    case 2: {
      const pid_t warden = job.warden();
      if (warden <= 0) return {};
      ::kill(warden, SIGKILL);
      return {"SIGKILL to the warden", [](const Ended& e) { return e.code == 1 || e.code == 0; }};
    }
    default: {
      const auto ranks = job.ranks();
      if (ranks.empty()) return {};
      const pid_t victim = ranks[draws.random() % ranks.size()];
      ::kill(victim, place == 3 ? SIGKILL : SIGUSR1);
      return {concat("a signal to rank process ", victim),
              [](const Ended& e) { return e.code == 1 || e.code == 0; }};
    }
  }
}

Launched start_job(int ranks, int work_ms) {
  return Launched(run_line({"--nproc-per-node", std::to_string(ranks), "--shutdown-timeout", "0.3"},
                           concat("work:", work_ms)));
}

/// Twice what a job takes here until its ranks work: half of the blows fall before.
double first_window_ms() {
  const auto start = Clock::now();
  Launched job = start_job(3, 0);
  EXPECT_TRUE(job.wait_for("ready", 3)) << job.err();
  return 2 * std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

TEST(RandomKills, LeaveNoProcessAndNoWrongExitCode) {
  const unsigned seed = test::seed_of_test();
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  const int jobs = test::count_of_blows(kJobs);
  Draws draws(seed, jobs);
  int hits = 0;
  const auto until = Clock::now() + kTime;
  double window_ms = std::clamp(first_window_ms(), kLeastWindowMs, kMostWindowMs);
  for (int i = 0; i < jobs || hits <= jobs / 3; ++i) {
    if (Clock::now() > until) break;
    // A job outlives the window, so a blow that misses came too early: starting is slow here.
    const int most_ms = static_cast<int>(window_ms);
    Launched job = start_job(1 + draws.ranks.part(), most_ms + 10);
    ::poll(nullptr, 0, static_cast<int>(draws.instants.share() * most_ms));
    const Blow blow = strike(job, draws);
    SCOPED_TRACE(concat("job ", i, ": ", blow.what));
    const Ended ended = job.wait(std::chrono::seconds(20));
    EXPECT_TRUE(blow.agrees(ended)) << "code " << ended.code << " signal " << ended.signal << '\n'
                                    << job.err();
    EXPECT_TRUE(job.nothing_left());
    const bool hit = ended.code != 0;
    hits += hit;
    window_ms = std::clamp(window_ms * (hit ? 0.9 : 1.25), kLeastWindowMs, kMostWindowMs);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(hits, jobs / 3) << "the blows met too few jobs to mean anything";
}

}  // namespace
}  // namespace muster::testing_process
