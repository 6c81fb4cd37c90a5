#include "muster/launch/process/failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "muster/launch/job/job.h"

namespace muster::launch {
namespace {

using ::testing::HasSubstr;

constexpr int exited(int code) { return code << 8; }  // as waitid packs it

TEST(ErrorReport, ReadsWhatPythonsRecordWrites) {
  const auto report = parse_error_report(
      R"({"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "…", "timestamp": "1700000000"}}})");
  EXPECT_EQ(report, (ErrorReport{"ValueError: x", 1700000000}));
}

TEST(ErrorReport, ReadsTheShortForm) {
  EXPECT_EQ(parse_error_report(R"({"message": "it broke"})"),
            (ErrorReport{"it broke", std::nullopt}));
}

TEST(ErrorReport, RefusesTheRest) {
  for (const char* text : {"",
                           "{",
                           "[]",
                           "{\"message\": 1}",
                           "{\"message\": {\"message\": []}}",
                           "{\"other\": \"x\"}"}) {
    EXPECT_FALSE(parse_error_report(text)) << text;
  }
}

TEST(FirstCause, IsTheFirstThatFailed) {
  const std::vector<RankEnd> ends{{.rank = 2, .wait_status = 0, .order = 0},
                                  {.rank = 0, .wait_status = exited(1), .order = 1},
                                  {.rank = 1, .wait_status = exited(1), .order = 2}};
  EXPECT_EQ(first_cause(ends), 1U);
  EXPECT_EQ(first_cause(std::span(ends).first(1)), std::nullopt);
}

TEST(FirstCause, PrefersASignalAmongThoseThatDiedTogether) {
  const std::vector<RankEnd> ends{{.rank = 0, .wait_status = exited(1), .order = 5},
                                  {.rank = 1, .wait_status = SIGSEGV, .order = 5}};
  EXPECT_EQ(first_cause(ends), 1U);
}

TEST(FirstCause, BelievesTheEarlierReport) {
  const std::vector<RankEnd> ends{{.rank = 0, .wait_status = exited(1), .order = 1, .time_s = 105},
                                  {.rank = 1,
                                   .wait_status = exited(1),
                                   .order = 2,
                                   .time_s = 106,
                                   .was_asked = true,
                                   .report = ErrorReport{"x", 100}}};
  EXPECT_EQ(first_cause(ends), 1U);
}

// torch writes whole seconds, cut off: a report of the same second is no earlier than a death.
TEST(FirstCause, KeepsTheOrderOfDeathWithinASecond) {
  const std::vector<RankEnd> ends{{.rank = 0, .wait_status = SIGSEGV, .order = 1, .time_s = 100},
                                  {.rank = 1,
                                   .wait_status = exited(1),
                                   .order = 2,
                                   .time_s = 100,
                                   .report = ErrorReport{"peer is gone", 100}}};
  EXPECT_EQ(first_cause(ends), 0U);
}

TEST(FirstCause, IsNotARankThatEndedBecauseItWasAskedTo) {
  const std::vector<RankEnd> ends{
      {.rank = 0, .wait_status = SIGTERM, .order = 0, .was_asked = true}};
  EXPECT_EQ(first_cause(ends), std::nullopt);
}

TEST(Status, NamesCodesAndSignals) {
  EXPECT_EQ(describe_status(exited(3)), "exit code 3");
  EXPECT_EQ(describe_status(SIGSEGV), "signal SIGSEGV (Segmentation fault)");
  EXPECT_EQ(describe_status(SIGABRT | 0x80), "signal SIGABRT (Aborted), core dumped");
}

TEST(Failure, TellsRankStatusLastLinesAndAHint) {
  const std::string text =
      describe({.rank = 1, .pid = 12, .wait_status = SIGKILL, .last_lines = {"a", "b"}});
  EXPECT_THAT(
      text,
      HasSubstr(
          "rank 1 (pid 12) failed: signal SIGKILL (Killed)\nits last lines:\n  | a\n  | b\n"));
  EXPECT_THAT(text, HasSubstr("hint: the kernel does this when memory runs out"));
}

TEST(ExitCode, FollowsTheContract) {
  const RankFailure crash{.wait_status = SIGSEGV}, wrong_use{.wait_status = exited(2)},
      failed{.wait_status = exited(77)};
  EXPECT_EQ(exit_code_of(0, std::nullopt), 0);
  EXPECT_EQ(exit_code_of(0, crash), 1);
  EXPECT_EQ(exit_code_of(0, failed), 1);
  EXPECT_EQ(exit_code_of(0, wrong_use), 2);
  EXPECT_EQ(exit_code_of(SIGINT, std::nullopt), 130);
  EXPECT_EQ(exit_code_of(SIGTERM, crash), 143);
}

}  // namespace
}  // namespace muster::launch
