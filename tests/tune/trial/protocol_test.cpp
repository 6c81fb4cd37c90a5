// The lines between trials and tuner: what is read, what is refused, in which words.
#include "muster/tune/trial/protocol.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/tune/trial/wire.h"

#include "tests/support/error_of.h"

namespace muster::tune {
namespace {

using test::refusal_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

template <class Message>
Message read(std::string_view line) {
  return std::get<Message>(parse_trial_message(line));
}

TEST(TrialMessage, ReadsWhatItWrites) {
  const Hello hello{.token = "9f", .trial = 3, .attempt = 2, .client = "c\"1"};
  EXPECT_EQ(read<Hello>(to_line(hello)), hello);
  for (const UserOrder& order : {UserOrder{.token = "t", .trial = -1},
                                 UserOrder{.token = "t", .trial = 4, .action = Action::kPause},
                                 UserOrder{.token = "t", .trial = 0, .action = Action::kContinue}})
    EXPECT_EQ(read<UserOrder>(to_line(order)), order);
  const Report report{.sequence = 7,
                      .step = 4,
                      .metrics = {{"loss", 0.1}, {"acc/é", 1e-300}},
                      .checkpoint = "/a b"};
  const Report back = read<Report>(to_line(report));
  EXPECT_EQ(to_line(back), to_line(report));
  EXPECT_EQ(back.metrics, report.metrics);
  EXPECT_EQ(back.step, 4);
}

TEST(TrialMessage, ALineIsOneLine) {
  const Report report{.sequence = 1, .metrics = {{"a b", 1}}, .checkpoint = "two\nlines"};
  const std::string line = to_line(report);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(read<Report>(line).checkpoint, "two\nlines");
}

TEST(TrialMessage, NumbersThatJsonHasNotSurvive) {
  const double inf = std::numeric_limits<double>::infinity();
  const Report report{.sequence = 1, .metrics = {{"a", std::nan("")}, {"b", inf}, {"c", -inf}}};
  const Report back = read<Report>(to_line(report));
  EXPECT_TRUE(std::isnan(back.metrics[0].second));
  EXPECT_EQ(back.metrics[1].second, inf);
  EXPECT_EQ(back.metrics[2].second, -inf);
}

TEST(TrialMessage, SaysWhatIsWrong) {
  const auto why = [](std::string_view line) {
    return refusal_of([&] { parse_trial_message(line); });
  };
  EXPECT_THAT(why(""), HasSubstr("this line is not valid JSON"));
  EXPECT_THAT(why("[]"), HasSubstr("it is a JSON object"));
  EXPECT_THAT(why("{}"), HasSubstr("\"type\" is missing"));
  EXPECT_THAT(why(R"({"type":"repot"})"),
              HasSubstr("hello, report, stop, pause or continue (got repot)"));
  EXPECT_THAT(why(R"({"type":"report","metrics":{"a":1}})"), HasSubstr("\"sequence\" is missing"));
  EXPECT_THAT(why(R"({"type":"report","sequence":0,"metrics":{"a":1}})"), HasSubstr("at least 1"));
  EXPECT_THAT(why(R"({"type":"report","sequence":1,"metrics":{}})"),
              HasSubstr("at least one metric"));
  EXPECT_THAT(why(R"({"type":"report","sequence":1,"metrics":[1]})"),
              HasSubstr("object of numbers"));
  EXPECT_THAT(why(R"({"type":"report","sequence":1,"metrics":{"a":"b"}})"),
              HasSubstr("metric \"a\" cannot be taken: it is a number (got \"b\")"));
  EXPECT_THAT(why(R"({"type":"report","sequence":1,"metrics":{"step":1}})"),
              HasSubstr("may be named \"step\""));
  EXPECT_THAT(why(R"({"type":"report","sequence":1,"metrics":{"a":1},"step":-1})"),
              HasSubstr("\"step\""));
  EXPECT_THAT(why(R"({"type":"report","sequence":1,"metrics":{"a":1},"step":1.5})"),
              HasSubstr("whole number"));
  EXPECT_THAT(why(R"({"type":"report","sequence":1,"metrics":{"a":1,"a":2}})"),
              HasSubstr("each key once"));
  EXPECT_THAT(why(R"({"type":"hello","token":"t","trial":-2,"attempt":1,"client":""})"),
              HasSubstr("\"trial\""));
  EXPECT_THAT(why(R"({"type":"hello","token":"t","trial":1,"attempt":99999999999,"client":""})"),
              HasSubstr("\"attempt\""));
  EXPECT_THAT(why(std::string(70000, ' ')), HasSubstr("at most 65536 bytes"));
}

TEST(ReportLine, TakesFlatObjects) {
  const Report report =
      parse_report_line(R"({"loss": 0.31, "step": 4, "ok": true, "checkpoint": "c"})");
  EXPECT_EQ(report.step, 4);
  EXPECT_EQ(report.checkpoint, "c");
  EXPECT_THAT(report.metrics, ElementsAre(std::pair("loss", 0.31), std::pair("ok", 1.0)));
  EXPECT_EQ(to_report_line(report), R"({"loss":0.31,"ok":1.0,"step":4,"checkpoint":"c"})");
}

TEST(ReportLine, TakesWhatPythonsJsonAndPrintfWriteForNumbersThatAreNone) {
  const Report report = parse_report_line(
      R"({"a": NaN, "b": Infinity, "c": -Infinity, "d": nan, "e": -inf, "f": -nan, "NaN": 1, "g": 1e-5})");
  ASSERT_THAT(report.metrics, SizeIs(8));
  EXPECT_TRUE(std::isnan(report.metrics[0].second) && std::isnan(report.metrics[3].second) &&
              std::isnan(report.metrics[5].second));
  EXPECT_EQ(report.metrics[1].second, std::numeric_limits<double>::infinity());
  EXPECT_EQ(report.metrics[2].second, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(report.metrics[4].second, report.metrics[2].second);
  EXPECT_EQ(report.metrics[6], std::pair(std::string("NaN"), 1.0));
  EXPECT_EQ(report.metrics[7].second, 1e-5);
}

// Printed by the Reporter of syne-tune 0.16.0; tests/parity/test_tune_reporter.py asks it again.
TEST(ReportLine, PassesOverSyneTunesOwnKeys) {
  const std::string_view line =
      R"([tune-metric]: {"epoch": 2, "loss": NaN, "st_worker_timestamp": 1795285543.5930874, "st_worker_time": 9.172499994747341e-05, "st_worker_iter": 1})";
  const Report report = parse_report_line(behind_tag(line, kMetricTag).value());
  ASSERT_THAT(report.metrics, SizeIs(2));
  EXPECT_EQ(report.metrics[0], std::pair(std::string("epoch"), 2.0));
  EXPECT_EQ(report.metrics[1].first, "loss");
  EXPECT_TRUE(std::isnan(report.metrics[1].second));
}

TEST(ReportLine, AWholeStepMayBeADouble) {
  EXPECT_EQ(parse_report_line(R"({"a": 1, "step": 3.0})").step, 3);
  EXPECT_EQ(parse_report_line(R"({"a": 1, "step": null})").step, std::nullopt);
  EXPECT_THAT(refusal_of([] { parse_report_line(R"({"a": 1, "step": 1e300})"); }),
              HasSubstr("step"));
}

TEST(ReportLine, BoundsWhatItTakes) {
  std::string many = "{";
  for (int i = 0; i < 1001; ++i) many += concat(i == 0 ? "" : ",", "\"m", i, "\":1");
  EXPECT_THAT(refusal_of([&] { parse_report_line(many + "}"); }), HasSubstr("at most 1000"));
  const std::string longer = concat("{\"", std::string(257, 'x'), "\":1}");
  EXPECT_THAT(refusal_of([&] { parse_report_line(longer); }), HasSubstr("1 to 256 bytes"));
  EXPECT_THAT(refusal_of([&] { parse_report_line("{\"a\\u0001\":1}"); }),
              HasSubstr("control letter"));
}

TEST(Tag, IsFoundBehindOtherWords) {
  EXPECT_EQ(behind_tag("[tune-metric]: {}", kMetricTag), "{}");
  EXPECT_EQ(behind_tag("[1] INFO [tune-metric]:{\"a\": 1} ", kMetricTag), "{\"a\": 1}");
  EXPECT_EQ(behind_tag("tune-metric: {}", kMetricTag), std::nullopt);
}

TEST(FailureTag, NamesAClass) {
  const FailureLine line = parse_failure_line(R"({"class": "oom", "message": "too big"})");
  EXPECT_EQ(line, (FailureLine{Failure::kOutOfMemory, "too big"}));
  EXPECT_THAT(refusal_of([] { parse_failure_line(R"({"class": "timeout"})"); }),
              HasSubstr("crash, oom or nan"));
}

TEST(FailureTag, IsReadAsItWasWritten) {
  const FailureLine said{Failure::kNan, "the loss is \"NaN\"\nin step 3"};
  const std::string line = "[rank 0] " + to_failure_line(said);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = behind_tag(line, kFailureTag);
  ASSERT_TRUE(json);
  EXPECT_EQ(parse_failure_line(*json), said);
}

TEST(TunersAnswer, ReadsWhatItWrites) {
  for (const Answer& answer : {Answer{.sequence = 3, .action = Action::kStop, .reason = "why"},
                               Answer{.sequence = 1, .action = Action::kPause},
                               Answer{.sequence = 0, .error = "no\nhint: yes"}}) {
    EXPECT_EQ(parse_answer(to_line(answer)), answer);
  }
}

TEST(TunersAnswer, IsCutBetweenLetters) {
  std::string reason;
  for (int i = 0; i < 3000; ++i) reason += "é";
  const Answer back = parse_answer(to_line(Answer{.sequence = 1, .reason = "x" + reason}));
  EXPECT_EQ(back.reason.size(), kMaxReasonBytes - 1);
  EXPECT_TRUE(("x" + reason).starts_with(back.reason));
}

TEST(TunersAddress, ReadsWhatItWrites) {
  EXPECT_EQ(parse_address("unix:/run/x y", "A"), (Address{.path = "/run/x y"}));
  EXPECT_EQ(parse_address("tcp:node-1:80", "A"), (Address{.host = "node-1", .port = 80}));
  EXPECT_EQ(parse_address("tcp:[::1]:65535", "A"), (Address{.host = "::1", .port = 65535}));
  for (const char* text : {"unix:/a", "tcp:h:1", "tcp:[fe80::1%eth0]:9"})
    EXPECT_EQ(address_text(parse_address(text, "A")), text);
}

TEST(TunersAddress, SaysWhatIsWrong) {
  for (const char* text : {"",
                           "/run/x",
                           "unix:",
                           "tcp:",
                           "tcp:host",
                           "tcp:host:0",
                           "tcp:host:65536",
                           "tcp::1",
                           "tcp:[]:1"})
    EXPECT_THAT(refusal_of([&] { parse_address(text, "MUSTER_TUNER_ADDR"); }),
                HasSubstr("MUSTER_TUNER_ADDR is no address"))
        << text;
}

TEST(LinesOfASocket, ArePutTogetherAndBounded) {
  LineBuffer buffer;
  std::vector<std::string> lines;
  const auto keep = [&](std::string_view line) { lines.emplace_back(line); };
  buffer.feed("one\ntw", keep);
  buffer.feed("o\n\nthr", keep);
  EXPECT_THAT(lines, ElementsAre("one", "two", ""));
  const std::string flood(300000, 'x');
  buffer.feed(flood, keep);
  buffer.feed(flood + "\nfour\nlast", keep);
  buffer.flush(keep);
  ASSERT_THAT(lines, SizeIs(6));
  EXPECT_EQ(lines[3].size(), kMaxLineBytes + 1) << "one byte too many, so that parsers refuse it";
  EXPECT_EQ(lines[4], "four");
  EXPECT_EQ(lines[5], "last");
}

}  // namespace
}  // namespace muster::tune
