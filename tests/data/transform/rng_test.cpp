// One sample's random numbers: Philox's, for a counter made of (seed, epoch, index, position).
#include "muster/data/rng.h"

#include <cmath>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/philox.h"

#include "tests/support/error_of.h"

namespace muster::data {
namespace {

using ::testing::HasSubstr;

// Source: Random123 1.14.0, tests/kat_vectors, philox4x32 10, the first one.
TEST(Rng, BeginsWithTheKnownAnswersOfRandom123) {
  Rng rng(0, 0, 0, 0);
  EXPECT_EQ(rng.bits32(), 0x6627e8d5U);
  EXPECT_EQ(rng.bits32(), 0xe169c58dU);
  EXPECT_EQ(rng.bits64(), 0xbc57ac4c9b00dbd8ULL);
}

TEST(Rng, PutsTheFourNumbersIntoKeyAndCounterAsItsNoteSays) {
  const int64_t index = (int64_t{0xbeef} << 32) + 0x12345678;
  Rng rng(0xa4093822299f31d0, 77, index, 5);
  for (uint32_t block = 0; block < 3; ++block) {
    for (const uint32_t word :
         philox4x32_10({block, 0x12345678, 77, 0xbeef0005}, {0x299f31d0, 0xa4093822}))
      EXPECT_EQ(rng.bits32(), word);
  }
}

TEST(Rng, HasAStreamForEachSeedEpochIndexAndPosition) {
  std::set<uint64_t> firsts;
  size_t streams = 0;
  for (const uint64_t seed : {0ULL, 1ULL, 1ULL << 32}) {
    for (const int64_t epoch : {0, 1, 9}) {
      for (const int64_t index : {0LL, 1LL, 1LL << 32, 1LL << 40}) {
        for (const int64_t position : {0, 1, 300}) {
          firsts.insert(Rng(seed, epoch, index, position).bits64());
          ++streams;
        }
      }
    }
  }
  EXPECT_EQ(firsts.size(), streams);
}

TEST(Rng, DrawsWholeNumbersBelowABoundEachAsOften) {
  Rng rng(3, 1, 4);
  std::map<int64_t, int> seen;
  constexpr int kDraws = 60'000;
  for (int i = 0; i < kDraws; ++i) ++seen[rng.below(6)];
  ASSERT_EQ(seen.size(), 6U);
  double chi_squared = 0;
  for (const auto& [value, count] : seen) {
    EXPECT_TRUE(value >= 0 && value < 6) << value;
    chi_squared += std::pow(count - kDraws / 6.0, 2) / (kDraws / 6.0);
  }
  EXPECT_LT(chi_squared, 20.5);  // the 0.1 % quantile for 5 degrees of freedom
  EXPECT_EQ(rng.below(1), 0);
  EXPECT_THAT(test::error_of([&] { rng.below(0); }), HasSubstr("at least 1 (got 0)"));
}

// Means of n draws lie within 4 standard errors.
TEST(Rng, DrawsUniformAndNormalNumbersOfTheRightMoments) {
  Rng rng(5, 0, 2);
  constexpr int kDraws = 40'000;
  double sum = 0, normals = 0, squares = 0;
  int heads = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = rng.uniform(), z = rng.normal();
    ASSERT_TRUE(u >= 0 && u < 1);
    sum += u;
    normals += z;
    squares += z * z;
    heads += rng.chance(0.25) ? 1 : 0;
  }
  const double n = kDraws, error = 4 / std::sqrt(n);
  EXPECT_NEAR(sum / n, 0.5, error * std::sqrt(1 / 12.0));
  EXPECT_NEAR(normals / n, 0, error);
  EXPECT_NEAR(squares / n, 1, error * std::sqrt(2.0));
  EXPECT_NEAR(heads / n, 0.25, error * std::sqrt(0.25 * 0.75));
  EXPECT_FALSE(rng.chance(0));
  EXPECT_TRUE(rng.chance(1));
}

}  // namespace
}  // namespace muster::data
