// One hundred jobs or more, each hit by a random signal at a random instant in a random place.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include "muster/base/text.h"

#include "tests/support/launched.h"

namespace muster::testing_process {
namespace {

constexpr int kJobs = 100;                  // at least
constexpr int kHits = 33;                   // of the blows hit a job that ran; if not, more fall,
constexpr std::chrono::seconds kTime(200);  // but not for longer than this
constexpr double kLeastWindowMs = 50;       // in which a blow falls, from the start of its job
constexpr double kMostWindowMs = 3000;

/// What was done to a job, and with which ends it agrees.
struct Blow {
  std::string what = "nothing";
  bool (*agrees)(const Ended&) = [](const Ended& ended) { return ended.code == 0; };
};

Blow strike(Launched& job, std::mt19937& random) {
  switch (random() % 5) {
    case 0: {
      job.signal(SIGKILL);
      return {"SIGKILL to the launcher",
              [](const Ended& e) { return e.signal == SIGKILL || e.code == 0; }};
    }
    case 1: {
      const int signals[] = {SIGINT, SIGHUP, SIGQUIT, SIGTERM};
      const int signal = signals[random() % 4];
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
      const pid_t victim = ranks[random() % ranks.size()];
      ::kill(victim, random() % 2 == 0 ? SIGKILL : SIGUSR1);
      return {concat("a signal to rank process ", victim),
              [](const Ended& e) { return e.code == 1 || e.code == 0; }};
    }
  }
}

TEST(HundredRandomKills, LeaveNoProcessAndNoWrongExitCode) {
  const char* given = std::getenv("MUSTER_TEST_SEED");
  const unsigned seed = given != nullptr ? unsigned(std::atoi(given)) : std::random_device{}();
  std::mt19937 random(seed);
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  int hits = 0;
  const auto until = std::chrono::steady_clock::now() + kTime;
  double window_ms = kLeastWindowMs;
  for (int i = 0; i < kJobs || hits <= kHits; ++i) {
    if (std::chrono::steady_clock::now() > until) break;
    // A job outlives the window, so a blow that misses came too early: starting is slow here.
    const int most_ms = static_cast<int>(window_ms);
    Launched job(run_line(
        {"--nproc-per-node", std::to_string(1 + random() % 3), "--shutdown-timeout", "0.3"},
        concat("work:", most_ms + 10)));
    ::poll(nullptr, 0, static_cast<int>(random() % unsigned(most_ms)));  // the random instant
    const Blow blow = strike(job, random);
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
  EXPECT_GT(hits, kHits) << "the blows met too few jobs to mean anything";
}

}  // namespace
}  // namespace muster::testing_process
