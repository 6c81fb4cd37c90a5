#include "muster/tune/core/event.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "muster/base/json.h"

#include "tests/support/error_of.h"
#include "tests/support/numbers.h"

namespace muster::tune {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using test::kInf;
using test::kNan;

Event with(decltype(Event::what) what) {
  return {.id = 7, .time_s = 1.5, .trial = 3, .what = what};
}

/// What comes out of storage for what was put in.
Event again(const Event& event) {
  return event_from(event.id, event.time_s, event.trial, kind_of(event), payload_text(event));
}

TEST(Event, WritesItsOwnFieldsAsOneJsonObjectInAFixedOrder) {
  Reported reported;
  reported.attempt = 2;
  reported.t = 4;
  reported.report = {.sequence = 3, .step = 4, .metrics = {{"loss", 0.31}}, .checkpoint = "c/4"};
  reported.decision = {Action::kStop, "stopped at rung 4: 0.412 < cutoff 0.437 (n=9)", true};
  EXPECT_EQ(payload_text(with(reported)),
            R"x({"attempt":2,"t":4,"sequence":3,"step":4,"metrics":{"loss":0.31},)x"
            R"x("checkpoint":"c/4","action":"stop","complete":true,)x"
            R"x("reason":"stopped at rung 4: 0.412 < cutoff 0.437 (n=9)"})x");
  EXPECT_EQ(kind_of(with(reported)), "reported");
  const Event read = again(with(reported));
  const auto& what = std::get<Reported>(read.what);
  EXPECT_EQ(read.trial, 3);
  EXPECT_EQ(what.attempt, 2);
  EXPECT_EQ(what.t, 4);
  EXPECT_EQ(what.report.step, 4);
  EXPECT_EQ(what.report.metrics, (Metrics{{"loss", 0.31}}));
  EXPECT_EQ(what.report.checkpoint, "c/4");
  EXPECT_EQ(what.decision, reported.decision);
}

TEST(Event, AGivenTrialAndASessionSayWhatTheyAre) {
  TrialAdded added;
  added.point = {0.5};
  added.given = true;
  added.adopted = 12;
  added.reason = "enqueued by Optuna";
  EXPECT_EQ(
      payload_text(with(added)),
      R"x({"point":[0.5],"values":[],"given":true,"adopted":12,"reason":"enqueued by Optuna"})x");
  const Event read = again(with(added));
  EXPECT_TRUE(std::get<TrialAdded>(read.what).given);
  EXPECT_EQ(std::get<TrialAdded>(read.what).adopted, 12);
  const TunerNote note{.text = "started", .session = true};
  EXPECT_EQ(payload_text(with(note)), R"x({"text":"started","session":true})x");
  EXPECT_TRUE(std::get<TunerNote>(again(with(note)).what).session);
  const TunerNote more{.text = "a", .forgives = true, .in_vain = 3};
  EXPECT_EQ(payload_text(with(more)), R"x({"text":"a","forgives":true,"in_vain":3})x");
  EXPECT_TRUE(std::get<TunerNote>(again(with(more)).what).forgives);
  EXPECT_EQ(std::get<TunerNote>(again(with(more)).what).in_vain, 3);
}

TEST(Event, KeepsEveryDoubleBitForBitAndWritesWhatJsonHasNotAsText) {
  const double denormal = std::numeric_limits<double>::denorm_min();
  TrialAdded added;
  added.point = {0.1, kNan, kInf, -kInf, -0.0, 1e22, denormal, 1.0 / 3, 64};
  const Event event = with(added);
  EXPECT_THAT(payload_text(event), StartsWith(R"({"point":[0.1,"nan","inf","-inf",-0,)"));
  const Event read = again(event);
  const auto& point = std::get<TrialAdded>(read.what).point;
  ASSERT_EQ(point.size(), added.point.size());
  EXPECT_TRUE(std::isnan(point[1]));
  for (size_t i : {0, 2, 3, 4, 5, 6, 7, 8}) EXPECT_EQ(point[i], added.point[i]);
  EXPECT_TRUE(std::signbit(point[4]));
}

TEST(Event, KeepsTheKindsOfValuesApart) {
  TrialAdded added;
  added.values = {2, 2.0, true, "2", "nan", kNan, Value(), 1e22, -3, std::string("a\"\\\n\t\x01ü")};
  const Event event = with(added);
  EXPECT_EQ(payload_text(event),
            "{\"point\":[],\"values\":[2,2.0,true,\"2\",\"nan\",{\"double\":\"nan\"},null,1e+22,-3,"
            "\"a\\\"\\\\\\n\\u0009\\u0001ü\"]}");
  const Event read = again(event);
  const auto& values = std::get<TrialAdded>(read.what).values;
  ASSERT_EQ(values.size(), added.values.size());
  EXPECT_TRUE(std::isnan(values[5].as_double()));
  for (size_t i : {0, 1, 2, 3, 4, 6, 7, 8, 9}) EXPECT_EQ(values[i], added.values[i]) << i;
}

TEST(Event, EveryKindReadsBackAsTheSameText) {
  AttemptStarted started;
  started.attempt = 3;
  started.from_checkpoint = "trial-3/checkpoints/8";
  started.reason = "promoted to rung 4: 2 of 6";
  AttemptEnded ended;
  ended.failure = Failure::kInterrupted;
  ended.message = "killed by SIGKILL";
  ended.then = TrialState::kPending;
  ended.retry_in_s = 2.5;
  for (const Event& event : {with(started),
                             with(ended),
                             with(AttemptEnded{}),
                             with(Reported{}),
                             with(TrialAdded{}),
                             with(CheckpointSaved{}),
                             with(CheckpointSaved{.attempt = 2, .t = 7, .checkpoint = "c/7"}),
                             with(TunerNote{"started by process 7"})}) {
    EXPECT_EQ(payload_text(again(event)), payload_text(event)) << kind_of(event);
    const Json json = parse_json(payload_text(event), "payload");
    EXPECT_TRUE(json.is_object());
  }
}

TEST(Event, AnAttemptSaysForWhomItIsAndWhatChangesWithIt) {
  AttemptStarted started{.attempt = 2, .from_checkpoint = "c", .reason = "exploits trial 3"};
  started.asked = true;
  started.donor = 3;
  started.point = {0.5, kNan};
  started.values = {0.5, Value()};
  EXPECT_EQ(payload_text(with(started)),
            R"x({"attempt":2,"from_checkpoint":"c","reason":"exploits trial 3","asked":true,)x"
            R"x("donor":3,"point":[0.5,"nan"],"values":[0.5,null]})x");
  const auto read = std::get<AttemptStarted>(again(with(started)).what);
  EXPECT_TRUE(read.asked);
  EXPECT_EQ(read.donor, 3);
  EXPECT_EQ(read.values, started.values);
  // Where older versions said it by the reason alone, a reason may not say it by accident.
  for (const bool asked : {false, true}) {
    for (const char* reason : {"", "asked", "asked: again: a crash", "asking for it"}) {
      const Event event = with(AttemptStarted{.reason = reason, .asked = asked});
      EXPECT_EQ(std::get<AttemptStarted>(again(event).what).asked, asked) << reason;
    }
  }
  EXPECT_EQ(payload_text(with(AttemptStarted{.reason = "asked", .asked = true})),
            R"({"attempt":1,"reason":"asked"})");
}

TEST(Event, EveryFieldThatIsSeldomThereComesBack) {
  TrialAdded added;
  added.memo = "round 2";
  added.known = 17;
  EXPECT_EQ(payload_text(with(added)), R"({"point":[],"values":[],"memo":"round 2","known":17})");
  EXPECT_EQ(std::get<TrialAdded>(again(with(added)).what).memo, "round 2");
  EXPECT_EQ(std::get<TrialAdded>(again(with(added)).what).known, 17);
  const AttemptEnded ended{.then = TrialState::kPruned, .ordered = true};
  EXPECT_TRUE(std::get<AttemptEnded>(again(with(ended)).what).ordered);
  const TunerNote last{.text = "no more", .last = true};
  EXPECT_TRUE(std::get<TunerNote>(again(with(last)).what).last);
  EXPECT_EQ(std::get<StopOrdered>(again(with(StopOrdered{"by hand"})).what).reason, "by hand");
  EXPECT_EQ(std::get<PauseOrdered>(again(with(PauseOrdered{"later"})).what).reason, "later");
  EXPECT_EQ(std::get<ContinueOrdered>(again(with(ContinueOrdered{"now"})).what).reason, "now");
  const AttemptEnded held{.then = TrialState::kPaused, .by_user = true};
  EXPECT_TRUE(std::get<AttemptEnded>(again(with(held)).what).by_user);
}

TEST(Event, MendsTextsThatAreNotUtf8) {
  const Event event = with(TunerNote{"a\xff\n"});
  EXPECT_EQ(payload_text(event), "{\"text\":\"a\xEF\xBF\xBD\\n\"}");
  EXPECT_EQ(std::get<TunerNote>(again(event).what).text, "a\xEF\xBF\xBD\n");
}

TEST(Event, RefusesWhatItWouldNotWriteAndNamesTheEvent) {
  const auto refusal = [](std::string_view kind, std::string_view payload) {
    return test::refusal_of([&] { event_from(12, 0, 0, kind, payload); });
  };
  EXPECT_THAT(refusal("tuner", R"({"text":"a"} )"),
              StartsWith("event 12 of the study's log cannot be read: fault at byte 12"));
  EXPECT_THAT(refusal("tuner", R"({"text" : "a"})"), HasSubstr("fault at byte"));
  EXPECT_THAT(refusal("tuner", ""), HasSubstr("fault at byte 0"));
  EXPECT_THAT(refusal("born", "{}"), HasSubstr("there is no such kind of event (got born)"));
  EXPECT_THAT(refusal("attempt_started", R"({"attempt":01})"), HasSubstr("not as it is written"));
  EXPECT_THAT(refusal("attempt_started", R"({"attempt":4294967297})"),
              HasSubstr("not as it is written"));
  EXPECT_THAT(refusal("attempt_started", R"({"attempt":1,"reason":""})"),
              HasSubstr("not as it is written"));
  EXPECT_THAT(refusal("attempt_ended", R"({"attempt":1,"failure":"bad","then":"complete"})"),
              HasSubstr("fault at byte"));
  EXPECT_THAT(refusal("trial_added", R"({"point":[nan],"values":[]})"), HasSubstr("fault at byte"));
  EXPECT_THAT(refusal("trial_added", R"({"point":[1e999],"values":[]})"), HasSubstr("fault"));
  EXPECT_THAT(refusal("trial_added", R"({"point":[1,],"values":[]})"), HasSubstr("fault"));
}

}  // namespace
}  // namespace muster::tune
