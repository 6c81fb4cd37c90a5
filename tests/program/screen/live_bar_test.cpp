#include "muster/program/screen/live_bar.h"

#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "muster/base/file.h"

namespace muster::program {
namespace {

using ::testing::HasSubstr;

/// A pipe in the place of a terminal.
struct BarScreen {
  UniqueFd read_end, write_end;
  BarScreen() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }

  LiveBarOptions options(bool terminal) const {
    return {.out_fd = write_end.get(),
            .err_fd = write_end.get(),
            .out_is_terminal = terminal,
            .err_is_terminal = terminal,
            .colour = false,
            .width = [] { return 60; }};
  }

  std::string until(std::string_view text) {
    char buffer[4096];
    while (seen.find(text) == std::string::npos) {
      const ssize_t got = ::read(read_end.get(), buffer, sizeof buffer);
      if (got <= 0) break;
      seen.append(buffer, static_cast<size_t>(got));
    }
    return seen;
  }

  std::string rest() {
    write_end.reset();
    return until("\x04 never written");
  }

  std::string seen;
};

const track::ProgressEvent kEvent{.phase = "train", .epoch = 1, .epochs = 2, .step = 1, .steps = 4};

TEST(LiveBar, TakesTheBarAwayForALineAndDrawsItAgain) {
  BarScreen screen;
  LiveBar bar(screen.options(true));
  bar.update(kEvent);
  screen.until("25%");
  screen.seen.clear();
  bar.print_out("a line");
  EXPECT_THAT(screen.until("25%"), HasSubstr("\r\x1b[Ka line\n\rtrain 1/2"));
  bar.finish();
  EXPECT_TRUE(screen.rest().ends_with("\r\x1b[K"));
}

TEST(LiveBar, DrawsAtMostFifteenTimesASecond) {
  BarScreen screen;
  LiveBar bar(screen.options(true));
  const auto start = std::chrono::steady_clock::now();
  auto event = kEvent;
  event.steps = 20000;
  for (event.step = 1; event.step <= 20000; ++event.step) bar.update(event);
  bar.finish();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string seen = screen.rest();
  int draws = 0;
  for (size_t at = 0; (at = seen.find("train 1/2", at)) != std::string::npos; ++at) ++draws;
  EXPECT_LE(draws, 15 * seconds + 2);
}

TEST(LiveBar, WritesPlainLinesWithoutATerminal) {
  BarScreen screen;
  LiveBar bar(screen.options(false));
  auto event = kEvent;
  for (event.step = 1; event.step <= 4; ++event.step) bar.update(event);
  bar.finish();
  EXPECT_EQ(
      screen.rest(),
      "train epoch 1/2: 25%\ntrain epoch 1/2: 50%\ntrain epoch 1/2: 75%\ntrain epoch 1/2: 100%\n");
}

TEST(LiveBar, KeepsTheOrderOfLines) {
  BarScreen screen;
  LiveBar bar(screen.options(false));
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    i % 2 == 0 ? bar.print_out(std::to_string(i)) : bar.print_err(std::to_string(i));
    expected += std::to_string(i) + '\n';
  }
  bar.finish();
  EXPECT_EQ(screen.rest(), expected);
}

TEST(LiveBar, SaysWhenItsReaderIsTooSlowAndWhenThatIsOver) {
  BarScreen screen;
  LiveBar bar(screen.options(false));
  const std::string line(1000, 'x');
  size_t lines = 0;
  while (!bar.congested()) bar.print_out(line), ++lines;
  EXPECT_GE(lines * 1001, LiveBar::kMostPendingBytes);
  std::thread reader([&] { screen.until("\x04 never written"); });
  pollfd wake{bar.wake_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&wake, 1, 10000), 1);
  EXPECT_FALSE(bar.congested());
  bar.finish();
  screen.write_end.reset();
  reader.join();
  EXPECT_EQ(screen.seen.size(), lines * 1001);
}

TEST(LiveBar, DoesNotWaitForAReaderWhoNeverReads) {
  // Never closed: the thread that is left behind goes on writing to it.
  static BarScreen& screen = *new BarScreen;
  LiveBar bar(screen.options(false));
  bar.print_out(std::string(1 << 20, 'x'));
  EXPECT_FALSE(bar.finish(0.05));
}

TEST(LiveBar, RemembersThatWritingFailed) {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  LiveBar bar({.out_fd = full.get(), .err_fd = full.get()});
  bar.print_out("x");
  bar.finish();
  EXPECT_EQ(bar.trouble(), "No space left on device (ENOSPC)");
}

}  // namespace
}  // namespace muster::program
