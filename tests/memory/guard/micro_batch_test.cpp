// How batches are cut, and that the weights of the parts make the whole's mean.
#include "muster/memory/guard/micro_batch.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/error_of.h"

namespace muster::memory {
namespace {

using test::refusal_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> rows_of(const std::vector<MicroBatch>& pieces) {
  std::vector<int64_t> rows;
  for (const MicroBatch& piece : pieces) rows.push_back(piece.rows());
  return rows;
}

TEST(MicroBatches, AreAsFewAsFitAndDifferByARow) {
  EXPECT_THAT(rows_of(micro_batches({10}, 0)), ElementsAre(10));
  EXPECT_THAT(rows_of(micro_batches({10}, 10)), ElementsAre(10));
  EXPECT_THAT(rows_of(micro_batches({10}, 4)), ElementsAre(4, 3, 3));
  EXPECT_THAT(rows_of(micro_batches({10}, 9)), ElementsAre(5, 5));
  EXPECT_THAT(rows_of(micro_batches({3}, 1)), ElementsAre(1, 1, 1));
  EXPECT_THAT(rows_of(micro_batches({3, 5}, 2)), ElementsAre(2, 1, 2, 2, 1));
  EXPECT_THAT(rows_of(micro_batches({3}, std::numeric_limits<int64_t>::max())), ElementsAre(3));
}

TEST(MicroBatches, CoverEachRowOnceInOrderAndCountThemselves) {
  const std::vector<MicroBatch> pieces = micro_batches({7, 5}, 3);
  int64_t row = 0, batch = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].batch != batch) row = 0, batch = pieces[i].batch;
    EXPECT_EQ(pieces[i].begin, row);
    row = pieces[i].end;
    EXPECT_EQ(pieces[i].index, static_cast<int64_t>(i));
    EXPECT_EQ(pieces[i].count, static_cast<int64_t>(pieces.size()));
    EXPECT_EQ(pieces[i].is_first(), i == 0);
    EXPECT_EQ(pieces[i].is_last(), i + 1 == pieces.size());
  }
}

TEST(MicroBatches, AddUpToTheMeanOverRowsOrOverTheirWeights) {
  const std::vector<double> losses{3, 1, 4, 1, 5, 9, 2};
  const std::vector<double> tokens{2, 7, 1, 8, 2, 8, 0};
  for (const bool weighted : {false, true}) {
    double whole = 0, of_weights = 0;
    for (size_t i = 0; i < losses.size(); ++i) {
      whole += losses[i] * (weighted ? tokens[i] : 1);
      of_weights += weighted ? tokens[i] : 1;
    }
    whole /= of_weights;
    for (int64_t most = 1; most <= 7; ++most) {
      double sum = 0;
      for (const MicroBatch& piece : micro_batches(
               {7}, most, weighted ? c10::ArrayRef<double>(tokens) : c10::ArrayRef<double>())) {
        double own = 0, weights = 0;
        for (int64_t i = piece.begin; i < piece.end; ++i) {
          const double weight = weighted ? tokens[static_cast<size_t>(i)] : 1;
          own += losses[static_cast<size_t>(i)] * weight;
          weights += weight;
        }
        if (weights > 0) sum += own / weights * piece.weight;
      }
      EXPECT_NEAR(sum, whole, 1e-12) << most << ' ' << weighted;
    }
  }
}

TEST(MicroBatches, AWholeBatchIsTheTensorItself) {
  const at::Tensor x = torch::arange(6);
  const MicroBatch whole = micro_batches({6}, 0)[0];
  EXPECT_TRUE(whole.of(x).is_same(x));
  EXPECT_EQ(whole.weight, 1);
  const MicroBatch last = micro_batches({6}, 4)[1];
  EXPECT_TRUE(torch::equal(last.of(x), torch::tensor({3, 4, 5})))
      << "a view of the last three rows";
  EXPECT_TRUE(last.of(x).is_alias_of(x));
}

TEST(MicroBatches, RefuseWhatIsNoBatch) {
  EXPECT_THAT(refusal_of([] { micro_batches({0}, 1); }), HasSubstr("at least one row"));
  EXPECT_THAT(refusal_of([] { micro_batches({4}, -1); }), HasSubstr("(got -1)"));
  EXPECT_THAT(refusal_of([] { micro_batches({2}, 1, {1.0}); }), HasSubstr("1 for 2 rows"));
  EXPECT_THAT(refusal_of([] { micro_batches({2}, 1, {1.0, -1.0}); }), HasSubstr("(got -1)"));
  EXPECT_THAT(refusal_of([] {
                micro_batches({1, 2}, 1, {1.0, 0.0, 0.0});
              }),
              HasSubstr("its mean loss is over nothing"));
}

}  // namespace
}  // namespace muster::memory
