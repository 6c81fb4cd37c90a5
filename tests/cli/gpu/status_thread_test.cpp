// Readings of the machine on a thread of their own: new ones come, and one that hangs holds nobody up.
#include "cli/gpu/status_thread.h"

#include <atomic>
#include <future>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "muster/base/error.h"

#include "tests/support/error_of.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;

constexpr int kPatienceMs = 20'000;

/// Until there is a reading that newest() has not given.
void await_reading(const StatusThread& thread) {
  pollfd ready{thread.wake_fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&ready, 1, kPatienceMs), 1);
}

TEST(StatusThread, GivesOneReadingAfterTheOther) {
  std::atomic<int> readings = 0;
  StatusThread thread(
      [&] { return diagnose::MachineStatus{.unix_s = static_cast<double>(++readings)}; }, 0.001);
  double newest_s = 0;
  while (newest_s < 4 && !HasFatalFailure()) {
    await_reading(thread);
    const auto status = thread.newest();
    ASSERT_NE(status, nullptr);
    EXPECT_GE(status->unix_s, newest_s);
    newest_s = status->unix_s;
  }
  EXPECT_TRUE(thread.end(kPatienceMs / 1000));
}

TEST(StatusThread, AReadingThatDoesNotComeBackHoldsNobodyUp) {
  struct Driver {
    std::promise<void> asked, answers;
  };
  const auto driver = std::make_shared<Driver>();
  StatusThread thread(
      [driver] {
        driver->asked.set_value();
        driver->answers.get_future().wait();
        return diagnose::MachineStatus{};
      },
      3600);
  driver->asked.get_future().wait();
  EXPECT_EQ(thread.newest(), nullptr);
  EXPECT_GT(thread.reading_for_s(), 0);
  EXPECT_FALSE(thread.end(0)) << "it is in the reading still";
  driver->answers.set_value();
  EXPECT_TRUE(thread.end(kPatienceMs / 1000));
  EXPECT_EQ(thread.reading_for_s(), 0);
}

TEST(StatusThread, WhatAReadingThrowsIsThrownToWhoAsks) {
  StatusThread thread(
      []() -> diagnose::MachineStatus {
        throw environment_error({.refused = "no memory for a reading"});
      },
      3600);
  await_reading(thread);
  EXPECT_THAT(test::refusal_of([&] { thread.newest(); }, ErrorKind::kEnvironment),
              HasSubstr("no memory for a reading"));
  EXPECT_TRUE(thread.end(kPatienceMs / 1000)) << "after an error there is no other reading";
}

}  // namespace
}  // namespace muster::cli
