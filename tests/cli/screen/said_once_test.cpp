#include "cli/screen/said_once.h"

#include <gtest/gtest.h>

namespace muster::cli {
namespace {

TEST(SaidOnce, ShowsAnErrorOfSeveralRanksOnce) {
  SaidOnce said;
  for (int64_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(said.is_new(rank, "muster: error: unknown model x"), rank == 0);
    EXPECT_EQ(said.is_new(rank, "hint: see `muster list models`"), rank == 0);
  }
  EXPECT_EQ(said.end_attempt(), "ranks 1, 2 said the same");
  EXPECT_TRUE(said.is_new(1, "muster: error: unknown model x"));  // of another attempt
  EXPECT_EQ(said.end_attempt(), "");
}

TEST(SaidOnce, ShowsWhatDiffers) {
  SaidOnce said;
  EXPECT_TRUE(said.is_new(0, "p: error: no file"));
  EXPECT_TRUE(said.is_new(0, "hint: of 0"));
  EXPECT_FALSE(said.is_new(1, "p: error: no file"));
  EXPECT_TRUE(said.is_new(1, "hint: of 1"));
  EXPECT_TRUE(said.is_new(1, "hint: of 0"));  // 1 is heard again
  EXPECT_TRUE(said.is_new(2, "p: error: another file"));
}

TEST(SaidOnce, ShowsWhatIsNoErrorAndWhatARankSaysTwice) {
  SaidOnce said;
  for (int64_t rank = 0; rank < 2; ++rank) EXPECT_TRUE(said.is_new(rank, "epoch 1"));
  EXPECT_TRUE(said.is_new(0, "p: error: one"));
  EXPECT_TRUE(said.is_new(0, "p: error: one"));
  EXPECT_FALSE(said.is_new(1, "p: error: one"));
  EXPECT_TRUE(said.is_new(1, "epoch 2"));
  EXPECT_EQ(said.end_attempt(), "rank 1 said the same");
}

TEST(SaidOnce, ShowsEachLineOnceHoweverLinesComeInTurns) {
  SaidOnce said;
  EXPECT_TRUE(said.is_new(0, "{\"error\":{\"text\":\"x\"}}"));
  EXPECT_FALSE(said.is_new(1, "{\"error\":{\"text\":\"x\"}}"));
  EXPECT_TRUE(said.is_new(0, "more"));
  EXPECT_FALSE(said.is_new(1, "more"));
}

}  // namespace
}  // namespace muster::cli
