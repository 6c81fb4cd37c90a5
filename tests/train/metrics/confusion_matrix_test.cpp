#include "muster/train/metrics/confusion_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/json.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using train::ConfusionMatrix;

torch::Tensor labels(const std::vector<int64_t>& values) {
  return torch::tensor(values, torch::kLong);
}

/// The example of scikit-learn's page on classification_report.
ConfusionMatrix example() {
  ConfusionMatrix matrix(3, {"class 0", "class 1", "class 2"});
  matrix.add(labels({0, 0, 2, 2, 1}), labels({0, 1, 2, 2, 2}));
  return matrix;
}

TEST(ConfusionMatrix, HasARowPerTrueClass) {
  const ConfusionMatrix matrix = example();
  EXPECT_TRUE(torch::equal(matrix.counts(),
                           torch::tensor({{1, 0, 0}, {1, 0, 0}, {0, 1, 2}}, torch::kLong)));
  EXPECT_EQ(matrix.total(), 5);
  EXPECT_DOUBLE_EQ(matrix.accuracy(), 0.6);
}

// Numbers printed on that page: precision 0.50 0.00 1.00, recall 1.00 0.00 0.67, f1 0.67 0.00 0.80,
// support 1 1 3; macro 0.50 0.56 0.49.
TEST(ConfusionMatrix, ScoresAsScikitLearnDoes) {
  const auto scores = example().per_class();
  const double precision[] = {0.5, 0, 1}, recall[] = {1, 0, 2. / 3}, f1[] = {2. / 3, 0, 0.8};
  const int64_t support[] = {1, 1, 3};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(scores[i].precision, precision[i]);
    EXPECT_DOUBLE_EQ(scores[i].recall, recall[i]);
    EXPECT_DOUBLE_EQ(scores[i].f1, f1[i]);
    EXPECT_EQ(scores[i].support, support[i]);
  }
  const train::ClassScore macro = example().macro();
  EXPECT_NEAR(macro.precision, 0.50, 0.005);
  EXPECT_NEAR(macro.recall, 0.56, 0.005);
  EXPECT_NEAR(macro.f1, 0.49, 0.005);
  EXPECT_EQ(macro.support, 5);
}

TEST(ConfusionMatrix, MergesToWhatOneWouldHaveCounted) {
  torch::manual_seed(3);
  const torch::Tensor predicted = torch::randint(0, 7, {101}, torch::kLong);
  const torch::Tensor target = torch::randint(0, 7, {101}, torch::kLong);
  ConfusionMatrix whole(7), first(7), second(7);
  whole.add(predicted, target);
  first.add(predicted.slice(0, 0, 40), target.slice(0, 0, 40));
  second.add(predicted.slice(0, 40), target.slice(0, 40));
  first.merge(second);
  EXPECT_TRUE(torch::equal(first.counts(), whole.counts()));
  EXPECT_EQ(whole.total(), 101);
  EXPECT_DOUBLE_EQ(whole.accuracy(), predicted.eq(target).sum().item<double>() / 101);
  EXPECT_THROW(first.merge(ConfusionMatrix(6)), Error);
}

TEST(ConfusionMatrix, IsEmptyAtFirstAndScoresZero) {
  const ConfusionMatrix matrix(2);
  EXPECT_EQ(matrix.accuracy(), 0);
  EXPECT_EQ(matrix.macro().f1, 0);
  ConfusionMatrix still(2);
  still.add(labels({}), labels({}));
  EXPECT_EQ(still.total(), 0);
}

TEST(ConfusionMatrix, RefusesClassesOutOfRangeAndCountsNothing) {
  ConfusionMatrix matrix(3);
  EXPECT_THROW(matrix.add(labels({0, 3}), labels({0, 1})), Error);
  EXPECT_THROW(matrix.add(labels({0, 1}), labels({0, -1})), Error);
  EXPECT_THROW(matrix.add(labels({0}), labels({0, 1})), Error);
  EXPECT_THROW(matrix.add(torch::zeros({2}), labels({0, 1})), Error);
  EXPECT_EQ(matrix.total(), 0);
  EXPECT_THROW(ConfusionMatrix(0), Error);
  EXPECT_THROW(ConfusionMatrix(2, {"one"}), Error);
}

TEST(ConfusionMatrix, ComesBackFromJson) {
  const ConfusionMatrix matrix = example();
  const Json json = parse_json(matrix.to_json().dump(), "matrix");
  const ConfusionMatrix back = ConfusionMatrix::from_json(json);
  EXPECT_EQ(back.to_json(), matrix.to_json());
  EXPECT_EQ(json.at("macro").at("support"), 5);
  Json cut = json;
  cut["counts"][1] = {1, 2};
  EXPECT_THROW(ConfusionMatrix::from_json(cut), Error);
  Json negative = json;
  negative["counts"][1][1] = -1;
  EXPECT_THROW(ConfusionMatrix::from_json(negative), Error);
  EXPECT_THROW(ConfusionMatrix::from_json(Json::array()), Error);
}

TEST(ConfusionMatrix, ShowsTheMatrixWhereItFitsAndTheWorstPairsElsewhere) {
  EXPECT_EQ(example().to_text(80),
            "true \\ predicted  class 0  class 1  class 2\n"
            "class 0                 1        0        0\n"
            "class 1                 1        0        0\n"
            "class 2                 0        1        2\n"
            "\n"
            "class       precision  recall      F1  samples\n"
            "class 0        0.5000  1.0000  0.6667        1\n"
            "class 1        0.0000  0.0000  0.0000        1\n"
            "class 2        1.0000  0.6667  0.8000        3\n"
            "macro mean     0.5000  0.5556  0.4889        5\n"
            "accuracy 0.6000\n");
  const std::string narrow = example().to_text(40);
  EXPECT_THAT(narrow,
              HasSubstr("true     taken for  times\n"
                        "class 1    class 0      1\n"
                        "class 2    class 1      1\n"));
}

TEST(ConfusionMatrix, HasRowsForCsv) {
  const auto rows = example().to_rows();
  ASSERT_EQ(rows.size(), 4);
  EXPECT_EQ(rows[0],
            (std::vector<std::string>{"true \\ predicted", "class 0", "class 1", "class 2"}));
  EXPECT_EQ(rows[3], (std::vector<std::string>{"class 2", "0", "1", "2"}));
}

}  // namespace
}  // namespace muster
