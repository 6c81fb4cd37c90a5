#include "muster/diagnose/record/fault_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace muster::diagnose {
namespace {

using namespace std::chrono_literals;
using test::refusal_of;
using ::testing::HasSubstr;

TEST(FaultPlan, RulesStandBetweenSemicolonsOrLineEnds) {
  const FaultPlan plan = parse_fault_plan(
      "kill@rank=1,op=all_reduce,at=7; delay=200ms @ op=broadcast\n nan@rank=0,step=3;; stop");
  EXPECT_EQ(plan,
            (FaultPlan{{.action = FaultAction::kKill, .rank = 1, .op = OpKind::kAllreduce, .at = 7},
                       {.action = FaultAction::kDelay, .delay = 200ms, .op = OpKind::kBroadcast},
                       {.action = FaultAction::kNan, .rank = 0, .step = 3},
                       {.action = FaultAction::kStop}}));
  EXPECT_EQ(fault_plan_text(plan),
            "kill@rank=1,op=all_reduce,at=7; delay=200ms@op=broadcast; nan@rank=0,step=3; stop");
  EXPECT_EQ(parse_fault_plan(fault_plan_text(plan)), plan);
  EXPECT_TRUE(parse_fault_plan(" \n;").empty());
}

TEST(FaultPlan, DurationsHaveUnits) {
  const auto delay = [](const std::string& text) {
    return parse_fault_plan("delay=" + text)[0].delay;
  };
  EXPECT_EQ(delay("1.5s"), 1500ms);
  EXPECT_EQ(delay("2m"), 120s);
  EXPECT_EQ(delay("0ms"), 0ms);
  for (const char* bad : {"5", "-1s", "1h", "s", "1e9s", "nans"})
    EXPECT_THAT(refusal_of([&] { delay(bad); }), HasSubstr("a number and ms, s or m")) << bad;
}

TEST(FaultPlan, EveryOperationHasItsName) {
  for (size_t i = 0; i < kOpKinds; ++i) {
    const auto kind = static_cast<OpKind>(i);
    EXPECT_EQ(parse_fault_plan(std::string("skip@op=") + std::string(op_name(kind)))[0].op, kind);
  }
}

TEST(FaultPlan, BadRulesAreRefusedWithWhatIsWrong) {
  const auto refusal = [](const std::string& text) {
    return refusal_of([&] { parse_fault_plan(text); });
  };
  EXPECT_THAT(refusal("kil@rank=1"), HasSubstr("unknown action \"kil\""));
  EXPECT_THAT(refusal("kil@rank=1"), HasSubstr("did you mean \"kill\"?"));
  EXPECT_THAT(refusal("skip@op=all_redux"), HasSubstr("did you mean \"all_reduce\"?"));
  EXPECT_THAT(refusal("skip@rnk=1"), HasSubstr("did you mean \"rank\"?"));
  EXPECT_THAT(refusal("skip@rank"), HasSubstr("conditions read key=value"));
  EXPECT_THAT(refusal("skip@rank=x"), HasSubstr("rank is a number from 0"));
  EXPECT_THAT(refusal("skip@at=0"), HasSubstr("at is a number from 1"));
  EXPECT_THAT(refusal("skip@step=-1"), HasSubstr("step is a number from 0"));
  EXPECT_THAT(refusal("skip@at=1,at=2"), HasSubstr("at is given twice"));
  EXPECT_THAT(refusal("skip@op=send,op=recv"), HasSubstr("op is given twice"));
  EXPECT_THAT(refusal("nan@rank=1,op=recv"),
              HasSubstr("nan with op=recv: it stands in the inputs"));
  EXPECT_THAT(refusal("nan@op=barrier"), HasSubstr("this one has none"));
  EXPECT_THAT(refusal("skip=3"), HasSubstr("delay alone has a value"));
  EXPECT_THAT(refusal("delay@rank=1"), HasSubstr("delay without a value"));
  EXPECT_THAT(refusal("nan; skip@,"), HasSubstr("fault \"skip@,\""));
}

}  // namespace
}  // namespace muster::diagnose
