// The bytes of a tensor: against sets of single bytes.
#include "muster/testing/accelerator/byte_set.h"

#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace muster {
namespace {

using testing::ByteSet;

struct Layout {
  uintptr_t first = 0;
  size_t element = 4;
  std::vector<int64_t> sizes, strides;

  ByteSet bytes() const { return ByteSet(first, element, sizes, strides); }

  std::set<uintptr_t> each_byte() const {
    std::set<uintptr_t> all;
    std::vector<int64_t> index(sizes.size());
    if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return all;
    while (true) {
      uintptr_t at = first;
      for (size_t d = 0; d < sizes.size(); ++d)
        at += static_cast<size_t>(index[d] * strides[d]) * element;
      for (size_t b = 0; b < element; ++b) all.insert(at + b);
      size_t d = 0;
      while (d < sizes.size() && ++index[d] == sizes[d]) index[d++] = 0;
      if (d == sizes.size()) return all;
    }
  }
};

Layout drawn_layout(std::mt19937& random) {
  Layout layout{.first = 1000 + random() % 60, .element = size_t(1) << random() % 3};
  for (unsigned d = random() % 4; d > 0; --d) {
    layout.sizes.push_back(random() % 5);
    layout.strides.push_back(random() % 12);
  }
  return layout;
}

TEST(ByteSet, OverlapsWhereAByteIsInBoth) {
  std::mt19937 random(11);
  int overlaps = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Layout a = drawn_layout(random), b = drawn_layout(random);
    const auto in_a = a.each_byte(), in_b = b.each_byte();
    const bool expected =
        std::any_of(in_a.begin(), in_a.end(), [&](uintptr_t byte) { return in_b.contains(byte); });
    ASSERT_EQ(a.bytes().overlaps(b.bytes()), expected);
    ASSERT_EQ(a.bytes().empty(), in_a.empty());
    overlaps += expected;
  }
  EXPECT_GT(overlaps, 2000);
  EXPECT_LT(overlaps, 18'000);
}

TEST(ByteSet, CoversOnlyWhatIsInIt) {
  std::mt19937 random(12);
  int covered = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Layout a = drawn_layout(random), b = drawn_layout(random);
    if (b.bytes().empty() || !a.bytes().covers(b.bytes())) continue;
    const auto in_a = a.each_byte(), in_b = b.each_byte();
    ASSERT_TRUE(std::includes(in_a.begin(), in_a.end(), in_b.begin(), in_b.end()));
    ++covered;
  }
  EXPECT_GT(covered, 50);
}

TEST(ByteSet, ColumnsOfOneMatrixAreApart) {
  const Layout left{.sizes = {8, 4}, .strides = {8, 1}};
  const Layout right{.first = 16, .sizes = {8, 4}, .strides = {8, 1}};
  EXPECT_FALSE(left.bytes().overlaps(right.bytes()));
  EXPECT_TRUE(left.bytes().covers(left.bytes()));
  EXPECT_FALSE(left.bytes().covers(right.bytes()));
}

TEST(ByteSet, AMillionRunsCountAsOne) {
  const Layout every_other{.sizes = {1 << 20}, .strides = {2}};
  const Layout between{.first = 4, .sizes = {1}, .strides = {1}};
  EXPECT_TRUE(every_other.bytes().overlaps(between.bytes()));
}

}  // namespace
}  // namespace muster
