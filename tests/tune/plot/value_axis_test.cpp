// Axes of parameters: places, scales, ticks.
#include "muster/tune/plot/value_axis.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

namespace muster::tune {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

std::vector<std::string> labels_of(const ValueAxis& axis, int most = 6) {
  std::vector<std::string> out;
  for (const AxisTick& tick : axis.ticks(most)) out.push_back(tick.label);
  return out;
}

TEST(ValueAxis, OfALogarithmicDomainIsLogarithmicWithRoomAtItsEnds) {
  const std::vector<Value> values = {1e-4, 1e-2, 1e-1};
  const ValueAxis axis("lr", "loguniform(1e-4, 1e-1)", values);
  EXPECT_TRUE(axis.is_log());
  // 4 % of three decades at each end: places are (d + 0.12) / 3.24 for d decades above 1e-4.
  EXPECT_THAT(*axis.place(Value(1e-4)), DoubleNear(0.12 / 3.24, 1e-12));
  EXPECT_THAT(*axis.place(Value(1e-2)), DoubleNear(2.12 / 3.24, 1e-12));
  EXPECT_THAT(labels_of(axis), ElementsAre("1e-4", "0.001", "0.01", "0.1"));
}

TEST(ValueAxis, OfALogarithmicDomainWithinADecadeStillHasTicks) {
  const std::vector<Value> values = {0.011, 0.013};
  const ValueAxis axis("lr", "loguniform(1e-4, 1e-1)", values);
  EXPECT_TRUE(axis.is_log());
  EXPECT_GE(axis.ticks(6).size(), 2u);
}

TEST(ValueAxis, OfManyDecadesHasAFewPowersOfTen) {
  const std::vector<Value> values = {1e-30, 1.0};
  const ValueAxis axis("p", "loguniform(1e-30, 1)", values);
  const auto ticks = axis.ticks(6);
  EXPECT_LE(ticks.size(), 6u);
  EXPECT_GE(ticks.size(), 4u);
}

TEST(ValueAxis, OfALogarithmicParameterOfOptunasIsLogarithmicWhateverItsSpan) {
  const std::vector<Value> values = {1, 50};
  EXPECT_TRUE(ValueAxis("n", "", values, /*log=*/true).is_log());
  EXPECT_FALSE(ValueAxis("n", "", values).is_log());
}

TEST(ValueAxis, OfTheSmallestNumbersIsLogarithmicToo) {
  const std::vector<Value> values = {1e-300, 1.0, 1e300};
  const ValueAxis axis("p", "loguniform(1e-300, 1e300)", values);
  EXPECT_TRUE(axis.is_log());
  EXPECT_NEAR(*axis.place(values[1]), 0.5, 0.01);
  const std::vector<Value> smallest = {5e-324, 1e-310};
  const ValueAxis tiny("p", "loguniform(5e-324, 1)", smallest);
  EXPECT_LT(*tiny.place(smallest[0]), *tiny.place(smallest[1]));
  EXPECT_FALSE(tiny.ticks(6).empty());
}

TEST(ValueAxis, OfAnExpressionIsLogarithmicWhereItsValuesAreFarApart) {
  const std::vector<Value> powers = {4, 16, 256}, near = {4, 5, 6};
  EXPECT_TRUE(ValueAxis("l1", "sample_from(2 ** randint(2, 9))", powers).is_log());
  EXPECT_FALSE(ValueAxis("l1", "sample_from(4 + randint(0, 3))", near).is_log());
}

TEST(ValueAxis, OfWholeNumbersHasNoTicksBetween) {
  const std::vector<Value> values = {1, 2, 3};
  EXPECT_THAT(labels_of(ValueAxis("n", "randint(1, 4)", values)), ElementsAre("1", "2", "3"));
}

TEST(ValueAxis, OfChoicesHasThemInTheirOrderAlsoThoseOfNoTrial) {
  const std::vector<Value> values = {"sgd", "sgd", {}};
  const ValueAxis axis("optimizer", "choice('adam', 'sgd', 'lion')", values);
  EXPECT_TRUE(axis.is_category());
  EXPECT_TRUE(axis.is_constant());
  EXPECT_THAT(labels_of(axis), ElementsAre("adam", "sgd", "lion"));
  EXPECT_THAT(*axis.place("sgd"), DoubleNear(0.5, 1e-12));
  EXPECT_EQ(axis.place(Value()), std::nullopt);
  EXPECT_EQ(axis.place("adagrad"), std::nullopt);
}

TEST(ValueAxis, OfHundredsOfChoicesHasThoseThatTrialsHad) {
  std::string domain = "choice(";
  for (int i = 0; i < 500; ++i) domain += (i > 0 ? ", 'c" : "'c") + std::to_string(i) + "'";
  const std::vector<Value> values = {"c400", "c3"};
  EXPECT_THAT(labels_of(ValueAxis("c", domain + ")", values)), ElementsAre("c3", "c400"));
}

TEST(ValueAxis, OfOptunasTrialsIsToldFromTheirValues) {
  const std::vector<Value> texts = {"b", "a"}, wide = {1e-5, 0.1}, mixed = {1, "auto"};
  EXPECT_THAT(labels_of(ValueAxis("p", "", texts)), ElementsAre("b", "a"));
  EXPECT_TRUE(ValueAxis("p", "", wide).is_log());
  EXPECT_TRUE(ValueAxis("p", "", mixed).is_category());
}

TEST(ValueAxis, OfOneValueOfNoneAndOfHugeOnesPlacesWhatItCan) {
  const std::vector<Value> one = {10, 10}, none = {{}, {}}, huge = {-1.7e308, 1.7e308, NAN};
  const ValueAxis constant("epochs", "10", one);
  EXPECT_TRUE(constant.is_constant());
  EXPECT_THAT(*constant.place(Value(10)), DoubleNear(0.5, 1e-12));
  EXPECT_EQ(ValueAxis("p", "uniform(0, 1)", none).place(Value()), std::nullopt);
  const ValueAxis wide("p", "uniform(0, 1)", huge);
  EXPECT_TRUE(std::isfinite(*wide.place(Value(1.7e308))));
  EXPECT_EQ(wide.place(Value(NAN)), std::nullopt);
  EXPECT_EQ(wide.place(Value(std::numeric_limits<double>::infinity())), std::nullopt);
  EXPECT_FALSE(wide.ticks(5).empty());
}

// 4 % of the width at each end, as far as there are doubles: here there are none beyond the ends.
TEST(ValueAxis, ReachesToTheEndOfDoubles) {
  const double most = std::numeric_limits<double>::max();
  const std::vector<double> all = {-most, -most / 2, 0, most}, positive = {1e307, 2e307, 1e308};
  const ValueAxis signs("loss", all);
  EXPECT_DOUBLE_EQ(signs.at(-most), 0);
  EXPECT_DOUBLE_EQ(signs.at(-most / 2), 0.25);
  EXPECT_DOUBLE_EQ(signs.at(0), 0.5);
  EXPECT_DOUBLE_EQ(signs.at(most), 1);
  EXPECT_THAT(labels_of(signs), ElementsAre("-1e308", "0", "1e308"));
  const ValueAxis one_sign("loss", positive);
  EXPECT_THAT(one_sign.at(1e307), DoubleNear(0.04 / 1.08, 1e-12));
  EXPECT_THAT(one_sign.at(2e307), DoubleNear((0.04 + 1 / 9.) / 1.08, 1e-12));
  EXPECT_THAT(labels_of(one_sign),
              ElementsAre("0.2e308", "0.4e308", "0.6e308", "0.8e308", "1.0e308"));
}

TEST(ValueAxis, OfHugeDecadesIsLogarithmicUpToTheEndOfDoubles) {
  const std::vector<double> wide = {1e-280, 1.0, 1e308};
  const ValueAxis axis("loss", wide);
  EXPECT_TRUE(axis.is_log());
  // 280 of the 588 decades between the two; beyond them is some room.
  EXPECT_THAT(axis.at(1.0) - axis.at(1e-280),
              DoubleNear(280 / 588. * (axis.at(1e308) - axis.at(1e-280)), 1e-9));
  for (const AxisTick& tick : axis.ticks(6)) {
    EXPECT_GE(tick.place, 0);
    EXPECT_LE(tick.place, 1);
    EXPECT_LT(tick.label.size(), 8U) << tick.label;
  }
  EXPECT_EQ(axis.at(-1), 0) << "what has no logarithm is at the edge";
  EXPECT_EQ(axis.at(std::numeric_limits<double>::infinity()), 1);
}

TEST(ValueAxis, OfAMetricIsLogarithmicOverTwoDecades) {
  const std::vector<double> wide = {0.01, 5}, near = {0.1, 5}, signs = {-1, 1000};
  EXPECT_TRUE(ValueAxis("loss", wide).is_log());
  EXPECT_FALSE(ValueAxis("loss", near).is_log());
  EXPECT_FALSE(ValueAxis("loss", signs).is_log());
}

}  // namespace
}  // namespace muster::tune
