#include "muster/launch/process/failure.h"

#include <chrono>
#include <ctime>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/launch/job/job.h"

namespace muster::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int exited(int code) { return code << 8; }  // as waitid packs it

TEST(ErrorReport, ReadsWhatPythonsRecordWrites) {
  const auto report = parse_error_report(
      R"({"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "…", "timestamp": "1700000000"}}})");
  EXPECT_EQ(report, (ErrorReport{.message = "ValueError: x", .timestamp_s = 1700000000}));
}

TEST(ErrorReport, ReadsTheShortForm) {
  EXPECT_EQ(parse_error_report(R"({"message": "it broke"})"), (ErrorReport{.message = "it broke"}));
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

TEST(ErrorReport, ReadsWhatMusterWrites) {
  const ErrorReport report{.message = "rank 1 is gone: \"it\"\nhint: look",
                           .timestamp_s = 1700000000,
                           .monotonic_ns = 41330829074023,
                           .is_consequence = true,
                           .after = {1, 3}};
  EXPECT_EQ(parse_error_report(error_report_text(report)), report);
}

// Its reader takes the time from there, as text or number, and shows the message if there is no
// "py_callstack" (torch/distributed/elastic/multiprocessing/errors).
TEST(ErrorReport, HasTorchrunsForm) {
  const Json json =
      Json::parse(error_report_text({.message = "it broke", .timestamp_s = 1700000000}));
  EXPECT_EQ(json["message"]["message"], "it broke");
  EXPECT_EQ(json["message"]["extraInfo"]["timestamp"], "1700000000");
  EXPECT_FALSE(json["message"]["extraInfo"].contains("py_callstack"));
}

class ErrorFile : public ::testing::Test {
 protected:
  ~ErrorFile() override { std::filesystem::remove(file_); }
  int64_t read(const std::string& text) {
    std::ofstream(file_) << text;
    const auto report = read_error_report(file_);
    return report && report->monotonic_ns ? *report->monotonic_ns : -1;
  }
  static int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  const std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / concat("muster-error-", ::getpid(), ".json");
};

TEST_F(ErrorFile, CountsFromWhenItWasWrittenIfItHasNoTimeOfItsOwn) {
  const int64_t before_ns = now_ns() - 100'000'000;  // a file system's clock ticks
  const int64_t read_ns = read(R"({"message": "x"})");
  EXPECT_GE(read_ns, before_ns);
  EXPECT_LE(read_ns, now_ns());
  EXPECT_EQ(read(R"({"message": {"message": "x", "extraInfo": {"muster": {"monotonic_ns": 5}}}})"),
            5);
}

TEST_F(ErrorFile, MayBeYoungerThanWhatItReports) {
  const int64_t hour_s = 3600;
  const auto real_s = static_cast<int64_t>(std::time(nullptr));
  const int64_t read_ns = read(concat(
      R"({"message": {"message": "x", "extraInfo": {"timestamp": ")", real_s - hour_s, R"("}}})"));
  EXPECT_LT(read_ns, now_ns() - (hour_s - 2) * 1'000'000'000);
  EXPECT_GT(read_ns, now_ns() - (hour_s + 60) * 1'000'000'000);
}

TEST_F(ErrorFile, IsNoneWhereNoneCanBeRead) {
  EXPECT_EQ(read_error_report(""), std::nullopt);
  EXPECT_EQ(read_error_report("/nowhere/error.json"), std::nullopt);
  EXPECT_EQ(read_error_report(std::filesystem::temp_directory_path()), std::nullopt);
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
  const std::vector<RankEnd> ends{{.rank = 0, .wait_status = exited(1), .order = 1, .time_ns = 105},
                                  {.rank = 1,
                                   .wait_status = exited(1),
                                   .order = 2,
                                   .time_ns = 106,
                                   .asked_ns = 105,
                                   .report = ErrorReport{.message = "x", .monotonic_ns = 100}}};
  EXPECT_EQ(first_cause(ends), 1U);
}

TEST(FirstCause, IsNoRankThatFailedBecauseAnotherHad) {
  // Rank 1's end is seen last: it wrote its core to the disk.
  const std::vector<RankEnd> ends{{.rank = 0,
                                   .wait_status = exited(1),
                                   .order = 1,
                                   .time_ns = 100,
                                   .report = ErrorReport{.message = "rank 1 is gone",
                                                         .monotonic_ns = 90,
                                                         .is_consequence = true,
                                                         .after = {1}}},
                                  {.rank = 1, .wait_status = SIGABRT, .order = 2, .time_ns = 900}};
  EXPECT_EQ(first_cause(ends), 1U);
  EXPECT_EQ(first_cause(std::span(ends).first(1)), 0U);
}

TEST(FirstCause, IsARankThatOthersNameThoughItWasAskedToEndMeanwhile) {
  RankEnd named{.rank = 1, .wait_status = exited(1), .order = 2, .time_ns = 200, .asked_ns = 150};
  const RankEnd other{
      .rank = 0,
      .wait_status = exited(1),
      .order = 1,
      .time_ns = 100,
      .report = ErrorReport{
          .message = "rank 1 is gone", .monotonic_ns = 90, .is_consequence = true, .after = {1}}};
  EXPECT_EQ(first_cause(std::vector{other, named}), 1U);
  named.wait_status = SIGSEGV;  // it wrote its core to the disk meanwhile
  EXPECT_EQ(first_cause(std::vector{other, named}), 1U);
  for (const int signal : {SIGTERM, SIGKILL}) {  // that was the launcher
    named.wait_status = signal;
    EXPECT_EQ(first_cause(std::vector{other, named}), 0U);
  }
}

// As Python's @record does of the exception that a SIGTERM becomes, and whoever notes all errors.
TEST(FirstCause, IsNoRankThatReportedOnlyAfterItWasAskedToEnd) {
  const RankEnd unsure{
      .rank = 0,
      .wait_status = exited(1),
      .order = 1,
      .time_ns = 100,
      .report = ErrorReport{
          .message = "the store of the job is gone", .monotonic_ns = 90, .is_consequence = true}};
  RankEnd asked{.rank = 1,
                .wait_status = exited(1),
                .order = 2,
                .time_ns = 200,
                .asked_ns = 150,
                .report = ErrorReport{.message = "got SIGTERM", .monotonic_ns = 151}};
  EXPECT_EQ(first_cause(std::vector{unsure, asked}), 0U);
  asked.report->monotonic_ns = 149;  // it had failed by then
  EXPECT_EQ(first_cause(std::vector{unsure, asked}), 1U);
}

TEST(FirstCause, IsNotWhomOthersSawEndOnlyAfterAllWereAskedTo) {
  const RankEnd first{.rank = 0, .wait_status = exited(1), .order = 1, .time_ns = 100};
  const RankEnd asked{
      .rank = 1, .wait_status = exited(0), .order = 2, .time_ns = 200, .asked_ns = 150};
  const RankEnd ended{
      .rank = 2, .wait_status = exited(1), .order = 2, .time_ns = 90, .asked_ns = 150};
  RankEnd saw{.rank = 3,
              .wait_status = exited(1),
              .order = 3,
              .time_ns = 300,
              .asked_ns = 150,
              .report = ErrorReport{.message = "rank 2 has ended",
                                    .monotonic_ns = 250,
                                    .is_consequence = true,
                                    .after = {2}}};
  EXPECT_EQ(first_cause(std::vector{first, asked, ended, saw}), 0U);
  saw.report->monotonic_ns = 120;
  EXPECT_EQ(first_cause(std::vector{first, asked, ended, saw}), 2U);
}

TEST(AwaitedCause, IsTheEndOfARankThatOthersName) {
  const RankEnd other{
      .rank = 0,
      .wait_status = exited(1),
      .report = ErrorReport{.message = "rank 1 is gone", .is_consequence = true, .after = {1}}};
  const std::vector<int64_t> both{1, 2}, one{2};
  EXPECT_TRUE(awaits_cause(std::vector{other}, both));
  EXPECT_FALSE(awaits_cause(std::vector{other}, one));
  EXPECT_FALSE(awaits_cause(std::vector{other, RankEnd{.rank = 2, .wait_status = SIGSEGV}}, both));
  RankEnd lost = other;
  lost.report->after.clear();
  EXPECT_FALSE(awaits_cause(std::vector{lost}, both));
  EXPECT_FALSE(awaits_cause({}, both));
}

TEST(FirstCause, IsTheEarlierOfTwoThatFailedByThemselves) {
  const auto end = [](int64_t rank, int64_t order, int64_t reported_ns) {
    return RankEnd{.rank = rank,
                   .wait_status = exited(1),
                   .order = order,
                   .time_ns = 1000 + order,
                   .report = ErrorReport{.message = "x", .monotonic_ns = reported_ns}};
  };
  EXPECT_EQ(first_cause(std::vector{end(0, 1, 501), end(1, 2, 500)}), 1U);
}

TEST(FirstCause, IsNotARankThatEndedBecauseItWasAskedTo) {
  const std::vector<RankEnd> ends{{.rank = 0, .wait_status = SIGTERM, .order = 0, .asked_ns = 1}};
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

TEST(Failure, SaysWhatWasReportedOnceAndThatAnotherWasFirst) {
  RankFailure failure{.rank = 1,
                      .wait_status = exited(1),
                      .report = ErrorReport{.message = "rank 0 is gone\nhint: look",
                                            .is_consequence = true,
                                            .after = {0}},
                      .last_lines = {"error: rank 0 is gone", "hint: look"}};
  EXPECT_THAT(describe(failure), Not(HasSubstr("it reported")));
  EXPECT_THAT(describe(failure), HasSubstr("\nit was not the first: it failed after rank 0\n"));
  failure.last_lines = {"Aborted"};
  EXPECT_THAT(describe(failure), HasSubstr("\nit reported: rank 0 is gone\nhint: look\n"));
}

TEST(Failure, IsNoneOfARankThatWasInterrupted) {
  const RankFailure failure{.rank = 1, .pid = 12, .wait_status = exited(130), .last_lines = {"a"}};
  EXPECT_EQ(describe(failure),
            "interrupted: rank 1 (pid 12) ended first, with exit code 130; no signal came to this "
            "launcher");
}

// Its own exit code says nothing: it may have saved its state, and cannot have done its work.
TEST(Failure, OfARankThatWasLeftIsOneHoweverItEnded) {
  RankFailure failure{.rank = 1, .pid = 12, .wait_status = exited(130), .was_left = true};
  EXPECT_EQ(describe(failure),
            "rank 1 (pid 12) was stopped when the rest of its job ended, and told to end: exit "
            "code 130");
  EXPECT_EQ(exit_code_of(0, failure), 1);
  failure.wait_status = SIGKILL;
  EXPECT_THAT(describe(failure), Not(HasSubstr("hint")));
  EXPECT_EQ(exit_code_of(0, failure), 1);
}

TEST(ExitCode, FollowsTheContract) {
  const RankFailure crash{.wait_status = SIGSEGV}, wrong_use{.wait_status = exited(2)},
      failed{.wait_status = exited(77)}, interrupted{.wait_status = exited(130)};
  EXPECT_EQ(exit_code_of(0, std::nullopt), 0);
  EXPECT_EQ(exit_code_of(0, crash), 1);
  EXPECT_EQ(exit_code_of(0, failed), 1);
  EXPECT_EQ(exit_code_of(0, wrong_use), 2);
  EXPECT_TRUE(was_wrong_use(wrong_use.wait_status));
  EXPECT_FALSE(was_wrong_use(failed.wait_status));
  EXPECT_FALSE(was_wrong_use(crash.wait_status));
  EXPECT_EQ(exit_code_of(0, interrupted), 130);
  EXPECT_EQ(exit_code_of(SIGINT, std::nullopt), 130);
  EXPECT_EQ(exit_code_of(SIGTERM, crash), 143);
}

}  // namespace
}  // namespace muster::launch
