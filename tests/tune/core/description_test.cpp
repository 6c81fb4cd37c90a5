// What a resumed study may change.
#include "muster/tune/core/description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/tune/core/stop_rules.h"

#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {
namespace {

using ::testing::HasSubstr;

TEST(StudyDescription, TellsASpaceThatChangedFromOneThatDidNot) {
  const Json stored = StudyCore(spec_with(5)).description();
  EXPECT_TRUE(describe_differences(stored, StudyCore(spec_with(50)).description()).empty());
  StudySpec other = spec_with(5);
  other.space = Space({{"lr", loguniform(1e-5, 1e-1)}, {"l2", uniform(0, 1)}});
  other.metric = "accuracy";
  const auto lines = describe_differences(stored, StudyCore(other).description());
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("+ metric = \"accuracy\"")));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("- lr")));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("+ l2")));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("- l1")));
  StudySpec turned = spec_with(5);
  turned.space = Space({{"l1", sample_from("2 ** randint(2, 9)")}, {"lr", loguniform(1e-4, 1e-1)}});
  EXPECT_THAT(describe_differences(stored, StudyCore(turned).description()),
              ::testing::ElementsAre(HasSubstr("another order")));
}

TEST(StudyDescription, TellsOfOtherRulesToStopThatNoHistoryNeedContradict) {
  const Json stored = StudyCore(spec_with(5)).description();
  StudySpec other = spec_with(5);
  other.stop = {parse_stop_criterion("loss <= 0.1", "here")};
  other.plateau = {.patience = 3, .min_delta = 0.5};
  other.nan_is_failure = true;
  const Json now = StudyCore(other).description();
  EXPECT_THAT(describe_differences(stored, now),
              ::testing::UnorderedElementsAre("- stop = []",
                                              "+ stop = [\"loss <= 0.1\"]",
                                              "- plateau = null",
                                              "+ plateau = {\"patience\":3,\"min_delta\":0.5,"
                                              "\"grace_period\":0}",
                                              "- nan_is_failure = false",
                                              "+ nan_is_failure = true"));
  EXPECT_TRUE(describe_differences(now, now).empty());
}

TEST(StudyDescription, OfAnOlderStudyNobodyKnowsWhatItStoppedAt) {
  Json stored = StudyCore(spec_with(5)).description();
  for (const char* key : {"stop", "plateau", "nan_is_failure"}) stored.erase(key);
  StudySpec other = spec_with(5);
  other.stop = {parse_stop_criterion("loss <= 0.1", "here")};
  const Json now = StudyCore(other).description();
  EXPECT_TRUE(describe_differences(stored, now).empty());
  EXPECT_EQ(as_old_as(stored, now), stored);
  EXPECT_EQ(as_old_as(now, now), now);
}

}  // namespace
}  // namespace muster::tune
