#include "muster/tune/space/value.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/tune/trial/trial.h"

#include "tests/support/error_of.h"

namespace muster::tune {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

TEST(Value, KeepsWholeNumbersAndNumbersApart) {
  EXPECT_EQ(value_text(Value(2)), "2");
  EXPECT_EQ(value_text(Value(2.0)), "2.0");
  EXPECT_EQ(value_text(Value(0.1)), "0.1");
  EXPECT_EQ(value_text(Value(-0.0)), "-0.0");
  EXPECT_EQ(value_text(Value(1e22)), "1e+22");
  EXPECT_EQ(value_text(Value(true)), "true");
  EXPECT_EQ(value_text(Value("adam")), "adam");
  EXPECT_EQ(value_text(Value()), "");
  EXPECT_NE(Value(2), Value(2.0));
  EXPECT_NE(Value(1), Value(true));
}

TEST(Value, ReadsAsAnotherKindOnlyWithoutLoss) {
  EXPECT_EQ(Value(2).as_double(), 2.0);
  EXPECT_EQ(Value(64.0).as_int(), 64);
  EXPECT_THAT(refusal_of([] { Value(0.5).as_int(); }),
              HasSubstr("a whole number is needed (got 0.5)"));
  EXPECT_THAT(refusal_of([] { Value(0x1p63).as_int(); }), HasSubstr("a whole number"));
  EXPECT_THAT(refusal_of([] { Value("2").as_int(); }), HasSubstr("(got \"2\")"));
  EXPECT_THAT(refusal_of([] { Value(1).as_bool(); }), HasSubstr("true or false is needed"));
  EXPECT_THAT(refusal_of([] { Value().as_double(); }), HasSubstr("(got nothing)"));
  EXPECT_THAT(refusal_of([] { Value(1).as_text(); }), HasSubstr("a text is needed"));
}

TEST(Value, IsTheSameAfterAWayThroughJson) {
  for (const Value& value :
       {Value(), Value(true), Value(3), Value(INT64_MIN), Value(0.1), Value(2.0), Value("a\"\n")})
    EXPECT_EQ(value_from(parse_json(json_text(to_json(value)), "test"), "test"), value);
  EXPECT_EQ(to_json(Value(std::nan(""))), "nan");
  EXPECT_EQ(value_from(Json(uint64_t{1} << 63), "x"), Value(0x1p63));
  for (const uint64_t number : {UINT64_MAX, (uint64_t{1} << 63) + 1}) {
    EXPECT_THAT(test::refusal_of([&] { value_from(Json(number), "x"); }),
                ::testing::HasSubstr(std::to_string(number)));
  }
  EXPECT_THAT(refusal_of([] { value_from(Json::array(), "key x"); }),
              HasSubstr("key x: a value is"));
}

TEST(Mode, MakesLargerTheBetter) {
  EXPECT_EQ(parse_mode("min"), Mode::kMin);
  EXPECT_EQ(name_of(parse_mode("max")), "max");
  EXPECT_EQ(score_of(0.3, Mode::kMin), -0.3);
  EXPECT_TRUE(std::isnan(score_of(std::nan(""), Mode::kMin)));
  EXPECT_THAT(refusal_of([] { parse_mode("maximize"); }), HasSubstr("\"min\" or \"max\""));
}

TEST(Trial, StatesHaveRaysAndOptunasNames) {
  EXPECT_EQ(ray_name(TrialState::kPruned), "TERMINATED");
  EXPECT_EQ(optuna_name(TrialState::kPruned), "PRUNED");
  EXPECT_EQ(ray_name(TrialState::kPaused), "PAUSED");
  EXPECT_EQ(optuna_name(TrialState::kPaused), "RUNNING");
  EXPECT_EQ(optuna_name(TrialState::kFailed), "FAIL");
  EXPECT_EQ(name_of(Failure::kOutOfMemory), "oom");
  EXPECT_EQ(name_of(Action::kPause), "pause");
}

TEST(Trial, MetricsAreFoundByName) {
  const Metrics metrics = {{"loss", 0.3}, {"accuracy", 0.9}};
  EXPECT_EQ(*find_metric(metrics, "accuracy"), 0.9);
  EXPECT_EQ(find_metric(metrics, "acc"), nullptr);
}

}  // namespace
}  // namespace muster::tune
