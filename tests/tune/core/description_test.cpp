// What a resumed study may change.
#include "muster/tune/core/description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/json.h"

#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {
namespace {

using ::testing::HasSubstr;

TEST(StudyDescription, TellsASpaceThatChangedFromOneThatDidNot) {
  const Json stored = StudyCore(spec_with(5)).describe();
  EXPECT_TRUE(describe_differences(stored, StudyCore(spec_with(50)).describe()).empty());
  StudySpec other = spec_with(5);
  other.space = Space({{"lr", loguniform(1e-5, 1e-1)}, {"l2", uniform(0, 1)}});
  other.metric = "accuracy";
  const auto lines = describe_differences(stored, StudyCore(other).describe());
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("+ metric = \"accuracy\"")));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("- lr")));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("+ l2")));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("- l1")));
  StudySpec turned = spec_with(5);
  turned.space = Space({{"l1", sample_from("2 ** randint(2, 9)")}, {"lr", loguniform(1e-4, 1e-1)}});
  EXPECT_THAT(describe_differences(stored, StudyCore(turned).describe()),
              ::testing::ElementsAre(HasSubstr("another order")));
}

}  // namespace
}  // namespace muster::tune
