// Columns as numbers: what is learned of them, and what is refused.
#include "muster/formats/features.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace muster::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;

TEST(Features, NumbersLoseTheirMeanAndAreDividedByTheirDeviation) {
  const Table table = parse_table("a,k,b\n1,x,7\n3,y,7\n 5.0 ,x,7\n100,y,7\n", "rows.csv");
  auto features = features_of(table, {.target = "k"});
  const std::vector<int64_t> rows{0, 1, 2};  // the last one teaches nothing
  learn_features(table, rows, features);
  EXPECT_EQ(features[0].mean, 3);
  EXPECT_DOUBLE_EQ(features[0].deviation, std::sqrt(8.0 / 3)) << "numpy.std([1, 3, 5])";
  EXPECT_EQ(features[1].deviation, 1) << "of one value there is none";
  const auto one = static_cast<float>(2 / std::sqrt(8.0 / 3));
  EXPECT_THAT(feature_values(table, features),
              ElementsAre(FloatEq(-one), 0, 0, 0, FloatEq(one), 0, FloatEq(48.5F * one), 0));
}

TEST(Features, LargeNumbersLoseNothingAndOneValueHasNoDeviation) {
  std::string text = "a,b,k\n";
  for (int row = 0; row < 200; ++row)
    text += row % 2 == 0 ? "1000000000000000,0.1,x\n" : "1000000000000001,0.1,y\n";
  const Table table = parse_table(text, "rows.csv");
  auto features = features_of(table, {.target = "k"});
  std::vector<int64_t> rows(200);
  for (size_t row = 0; row < rows.size(); ++row) rows[row] = static_cast<int64_t>(row);
  learn_features(table, rows, features);
  EXPECT_EQ(features[0].deviation, 0.5) << "half of them are 0.5 below the mean, half above";
  EXPECT_EQ(features[1].mean, 0.1);
  EXPECT_EQ(features[1].deviation, 1) << "what a training divides by";
}

TEST(Features, NumbersAreThoseOfPythonsFloat) {
  EXPECT_EQ(number_in("+1"), 1);
  EXPECT_EQ(number_in(" +.5e1 "), 5);
  EXPECT_EQ(number_in("1e-400"), 0);
  EXPECT_EQ(number_in("-3"), -3);
  for (const char* none : {"", "+", "++1", "+-1", "1e400", "inf", "nan", "1x", "e5"})
    EXPECT_FALSE(number_in(none)) << none;
}

TEST(Features, NumbersThatFloat32HasNotAreBadWithColumnAndRow) {
  Table table = parse_table("a,k\n1,x\n1e200,x\n2,x\n", "rows.csv");
  auto features = features_of(table, {.target = "k"});
  move_bad_cells(table, features);
  ASSERT_EQ(table.bad.size(), 1U);
  EXPECT_EQ(table.bad[0].place, "rows.csv:3");
  EXPECT_EQ(table.bad[0].why, "its \"a\" is too large for float32: \"1e200\"");
  features[0].mean = 0;
  features[0].deviation = 1e-30;
  const Table other = parse_table("a\n3e20\n", "other.csv");
  EXPECT_THAT(test::refusal_of([&] { feature_values(other, features); }, ErrorKind::kEnvironment),
              HasSubstr("other.csv:2: its \"a\": less the mean and divided by the deviation"));
}

TEST(Features, EachCategoryHasANumber) {
  const Table table = parse_table("c,k\nred,1\nblue,2\nred,1\ngreen,2\n", "rows.csv");
  auto features = features_of(table, {.target = "k", .categorical = {"c"}});
  learn_features(table, std::vector<int64_t>{0, 1, 2}, features);
  EXPECT_THAT(features[0].categories, ElementsAre("blue", "red"));
  EXPECT_EQ(features[0].width(), 2);
  EXPECT_THAT(feature_values(table, features), ElementsAre(0, 1, 1, 0, 0, 1, 0, 0))
      << "green was not seen";
}

TEST(Features, RowsWithoutANumberAreBad) {
  Table table = parse_table("a,k\n1,x\n,x\nabc,x\ninf,x\n2,x\n", "rows.csv");
  const auto features = features_of(table, {.target = "k"});
  move_bad_cells(table, features);
  EXPECT_EQ(table.rows.size(), 2U);
  ASSERT_EQ(table.bad.size(), 3U);
  EXPECT_EQ(table.bad[0].place, "rows.csv:3");
  EXPECT_EQ(table.bad[0].why, "its \"a\" is empty");
  EXPECT_EQ(table.bad[1].why, "its \"a\" is no number: \"abc\"");
}

TEST(Features, RowsWithoutACategoryAreBad) {
  const char* text = "c,a,k\nred,1,x\n,2,x\n  ,3,x\nblue,,x\n";
  Table table = parse_table(text, "rows.csv");
  auto features = features_of(table, {.target = "k", .categorical = {"c"}});
  move_bad_cells(table, features);
  ASSERT_EQ(table.bad.size(), 3U);
  EXPECT_EQ(table.bad[0].place, "rows.csv:3");
  EXPECT_EQ(table.bad[0].why, "its \"c\" is empty");
  EXPECT_EQ(table.bad[1].place, "rows.csv:4");
  EXPECT_EQ(table.bad[2].why, "its \"a\" is empty");
  learn_features(table, std::vector<int64_t>{0}, features);
  EXPECT_THAT(features[0].categories, ElementsAre("red"));
  // As a run has learned them once.
  Table again = parse_table(text, "rows.csv");
  auto learned = features;
  learned[0].categories = {"", "blue", "red"};
  move_bad_cells(again, learned, learned);
  ASSERT_EQ(again.bad.size(), 2U) << "of these \"\" is one, and \"  \" is none";
  EXPECT_EQ(again.bad[0].place, "rows.csv:4");
  EXPECT_EQ(again.rows[1].line, 3);
}

TEST(Features, RefusesColumnsOfTextByName) {
  const Table table = parse_table("a,color,k\n1,red,x\n", "rows.csv");
  EXPECT_THAT(test::refusal_of([&] { features_of(table, {.target = "k"}); }),
              HasSubstr("column \"color\" of rows.csv: features are numbers"));
  EXPECT_THAT(test::refusal_of([&] { features_of(table, {.target = "k"}); }),
              HasSubstr("categorical=color"));
  EXPECT_EQ(features_of(table, {.target = "k", .drop = {"color"}}).size(), 1U);
  EXPECT_THAT(test::refusal_of([&] { features_of(table, {.target = "z"}); }),
              HasSubstr("a, color, k"));
  EXPECT_THAT(test::refusal_of([&] {
                features_of(table, {.target = "k", .drop = {"a", "color"}});
              }),
              HasSubstr("a column besides the target"));
}

}  // namespace
}  // namespace muster::formats
