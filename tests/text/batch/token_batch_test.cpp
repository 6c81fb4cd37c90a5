#include "muster/text/batch/token_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace muster::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::vector<int64_t>> kRows{{1, 2, 3, 4, 5}, {6, 7}, {}};

TEST(TokenBatch, IsAsWideAsItsLongestRow) {
  const TokenBatch batch = pad_batch(kRows, {.pad_value = -1});
  EXPECT_EQ(batch.rows, 3);
  EXPECT_EQ(batch.width, 5);
  EXPECT_THAT(batch.ids, ElementsAre(1, 2, 3, 4, 5, 6, 7, -1, -1, -1, -1, -1, -1, -1, -1));
  EXPECT_THAT(batch.lengths, ElementsAre(5, 2, 0));
  EXPECT_THAT(batch.mask(), ElementsAre(1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(batch.row(1), ElementsAre(6, 7));
}

TEST(TokenBatch, PadsAndCutsAtEitherSide) {
  const TokenBatch right = pad_batch(kRows, {.max_length = 3});
  EXPECT_THAT(right.ids, ElementsAre(1, 2, 3, 6, 7, 0, 0, 0, 0));
  const TokenBatch left =
      pad_batch(kRows, {.pad_side = Side::kLeft, .max_length = 3, .truncate_side = Side::kLeft});
  EXPECT_THAT(left.ids, ElementsAre(3, 4, 5, 0, 6, 7, 0, 0, 0));
  EXPECT_THAT(left.mask(), ElementsAre(1, 1, 1, 0, 1, 1, 0, 0, 0));
  EXPECT_THAT(left.row(1), ElementsAre(6, 7));
}

TEST(TokenBatch, WidthFollowsMaxLengthAndMultiples) {
  EXPECT_EQ(pad_batch(kRows, {.multiple_of = 4}).width, 8);
  EXPECT_EQ(pad_batch(kRows, {.max_length = 7, .pad_to_max_length = true}).width, 7);
  EXPECT_EQ(pad_batch(kRows, {.max_length = 7, .pad_to_max_length = true, .multiple_of = 4}).width,
            8);
  EXPECT_EQ(pad_batch({}, {}).width, 0);
}

TEST(TokenBatch, OptionsThatContradictEachOtherAreRefused) {
  EXPECT_THAT(test::refusal_of([] { pad_batch(kRows, {.max_length = -1}); }),
              HasSubstr("max_length"));
  EXPECT_THAT(test::refusal_of([] { pad_batch(kRows, {.multiple_of = 0}); }),
              HasSubstr("multiple_of"));
  EXPECT_THAT(test::refusal_of([] { pad_batch(kRows, {.pad_to_max_length = true}); }),
              HasSubstr("needs a max_length"));
  EXPECT_THAT(test::refusal_of([] { pad_batch(kRows, {}).row(3); }), HasSubstr("3 rows (got 3)"));
}

}  // namespace
}  // namespace muster::text
