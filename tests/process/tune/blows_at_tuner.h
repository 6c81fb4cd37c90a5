// SIGKILL to `muster tune` at random instants, again and again, until its study has ended. Studies
// are named "kill" and stored in kill.db beside their file.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include "muster/base/error.h"
#include "muster/tune/storage/storage.h"

#include "tests/support/blows.h"
#include "tests/support/launched.h"

namespace muster::testing_process {

inline constexpr int kKills = 100;  // at least, in a test; a quarter hit a running trial: if
inline constexpr std::chrono::seconds kKillTime(200);  // not, more blows fall for so long

/// SIGKILL to the tuner (0, 1), to one of its other processes (2), to one and then the tuner (3), or
/// to all there are (4).
inline void strike(Launched& tuner, int what, std::mt19937& random) {
  if (what >= 2) {
    auto others = tuner.processes();
    std::erase(others, tuner.pid());
    if (what == 4) {
      for (const pid_t other : others) ::kill(other, SIGKILL);
    } else if (!others.empty()) {
      ::kill(others[random() % others.size()], SIGKILL);
    }
  }
  if (what != 2) tuner.signal(SIGKILL);
}

/// How many attempts the log knows; 0 as long as there is no study.
inline int64_t attempts_in(const std::filesystem::path& storage) try {
  const auto events = tune::read_events(storage, "kill");
  return std::ranges::count_if(events, [](const tune::Event& event) {
    return std::holds_alternative<tune::AttemptStarted>(event.what);
  });
} catch (const Error&) {
  return 0;  // killed before the study was created
}

/// Blows at random instants within a window from the start of the tuner. The window is half of what
/// an unbroken study takes, so that a dozen blows meet its first and its last trials; it widens while
/// they come too early for a trial to be started (a busy machine, a slow disk and a sanitizer make
/// starting slow), and narrows where they start one or come after the end.
struct Blows {
  /// `kinds` of studies are hit one after the other; `kinds_of_blow`: see strike.
  explicit Blows(unsigned seed, int kinds, int kinds_of_blow = 4)
      : random(seed),
        most(test::count_of_blows(kKills)),
        of_a_study((most + kinds - 1) / kinds),
        instants(std::min(most, 12), random),
        targets(kinds_of_blow, random) {}

  using Time = std::chrono::steady_clock;
  bool enough() const { return (count >= most && hits > most / 4) || Time::now() > until; }

  std::mt19937 random;
  int most;
  int of_a_study;  ///< the most that one study gets, so that each kind gets some
  test::Spread instants, targets;
  double window = 60;  // ms
  int count = 0;
  int hits = 0;  // in the studies that have ended: how many of the blows a trial felt
  /// The next tuner starts as soon as the one before is dead, not when all that it had started is.
  bool at_once = false;
  Time::time_point until = Time::now() + kKillTime;
};

/// Starts and kills the study until it has ended by itself, or enough blows have fallen. `check` is
/// called now and then in between.
inline void kill_until_done(const std::filesystem::path& study,
                            Blows& blows,
                            const std::function<void()>& check) {
  const auto storage = study.parent_path() / "kill.db";
  const int most = blows.count + blows.of_a_study;
  int64_t attempts = 0;
  std::unique_ptr<Launched> before;
  while (!::testing::Test::HasFailure()) {
    // A blow at AddressSanitizer's own process for leaks would leave the tuner waiting for it.
    auto tuner =
        std::make_unique<Launched>(std::vector<std::string>{"tune", study.string()},
                                   LaunchOptions{.environment = {"ASAN_OPTIONS=detect_leaks=0"}});
    const bool spare = blows.enough() || blows.count >= most;
    if (!spare) {
      ::poll(nullptr, 0, static_cast<int>(blows.instants.share() * blows.window));
      strike(*tuner, blows.targets.part(), blows.random);
      ++blows.count;
    }
    const Ended ended = tuner->wait(std::chrono::seconds(60));
    EXPECT_TRUE(before == nullptr || before->nothing_left()) << "a process was left";
    before.reset();
    EXPECT_TRUE(blows.at_once || tuner->nothing_left()) << "a process was left";
    EXPECT_TRUE(ended.signal == SIGKILL || ended.code == 0) << ended.code << '\n' << tuner->err();
    const bool over = ended.code == 0;
    const int64_t now = attempts_in(storage);
    if (!spare) blows.window *= over || now > attempts ? 0.9 : 1.25;
    blows.window = std::clamp(blows.window, 60.0, 3000.0);
    attempts = now;
    if (over) break;
    if (!spare && blows.count % 10 == 0 && now > 0) check();
    if (blows.at_once) before = std::move(tuner);
  }
}

}  // namespace muster::testing_process
