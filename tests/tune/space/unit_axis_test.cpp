#include "muster/tune/space/unit_axis.h"

#include <map>

#include <gtest/gtest.h>

namespace muster::tune {
namespace {

const Distribution kLog = FloatDistribution{.low = 1e-4, .high = 1, .log = true};
const Distribution kStepped = FloatDistribution{.low = 0, .high = 1, .step = 0.25};
const Distribution kWhole = IntDistribution{.low = 10, .high = 100, .step = 30};
const Distribution kNormal = NormalDistribution{.mean = 5, .sd = 2};
const Distribution kChoice = CategoricalDistribution{.choices = {"a", "b", "c"}};

TEST(UnitAxis, IsStraightInTheValueOrInItsLogarithm) {
  EXPECT_NEAR(to_unit(kLog, 1e-2), 0.5, 1e-15);
  EXPECT_NEAR(from_unit(kLog, 0.25), 1e-3, 1e-15);
  EXPECT_NEAR(to_unit(FloatDistribution{.low = -1, .high = 3}, 0), 0.25, 1e-15);
  EXPECT_NEAR(to_unit(kNormal, 5), 0.5, 1e-15);
  EXPECT_NEAR(from_unit(kNormal, 1.5), 17, 1e-12) << "unbounded: 6 sd above the mean";
}

TEST(UnitAxis, NumbersStayInTheirBoundsAndOnTheirStep) {
  EXPECT_LT(from_unit(kLog, 2), 1) << "the upper end is not the distribution's";
  EXPECT_NEAR(from_unit(kLog, -1), 1e-4, 1e-18);
  EXPECT_EQ(from_unit(kStepped, 0.3), 0.25);
  EXPECT_EQ(from_unit(kWhole, 1), 100);
  EXPECT_EQ(from_unit(kWhole, 0), 10);
}

TEST(UnitAxis, EachNumberOnAStepHasAnEqualPart) {
  for (const Distribution& distribution : {kStepped, kWhole, kChoice}) {
    std::map<double, int> counts;
    constexpr int kPlaces = 6000;
    for (int i = 0; i < kPlaces; ++i) ++counts[from_unit(distribution, (i + 0.5) / kPlaces)];
    for (const auto& [number, count] : counts) {
      EXPECT_NEAR(count, kPlaces / static_cast<double>(counts.size()), 2) << number;
      EXPECT_EQ(from_unit(distribution, to_unit(distribution, number)), number);
    }
  }
}

TEST(UnitAxis, ShiftsByStepsInsideTheBounds) {
  EXPECT_EQ(shifted(kWhole, 40, 1), 70);
  EXPECT_EQ(shifted(kWhole, 100, 1), 100);
  EXPECT_EQ(shifted(kStepped, 0.5, -1), 0.25);
  EXPECT_EQ(shifted(kChoice, 0, -1), 0);
  EXPECT_EQ(shifted(kLog, 0.3, 5), 0.3) << "no step";
}

}  // namespace
}  // namespace muster::tune
