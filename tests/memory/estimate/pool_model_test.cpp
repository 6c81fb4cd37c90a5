// Segments and blocks, by the rules of CUDA's caching allocator.
#include "muster/memory/estimate/pool_model.h"

#include <gtest/gtest.h>

namespace muster::memory {
namespace {

constexpr int64_t kMib = int64_t{1} << 20;

TEST(PoolModel, RoundsTo512Bytes) {
  EXPECT_EQ(PoolModel::rounded(1), 512);
  EXPECT_EQ(PoolModel::rounded(512), 512);
  EXPECT_EQ(PoolModel::rounded(513), 1024);
}

TEST(PoolModel, TakesSegmentsBySize) {
  PoolModel pool;
  pool.allocate(100);
  EXPECT_EQ(pool.reserved(), 2 * kMib);
  pool.allocate(kMib);
  EXPECT_EQ(pool.reserved(), 2 * kMib);
  pool.allocate(kMib);  // the rest of the first segment is a little too small
  EXPECT_EQ(pool.reserved(), 4 * kMib);
  pool.allocate(3 * kMib);
  EXPECT_EQ(pool.reserved(), 24 * kMib);
  pool.allocate(11 * kMib);  // the other 17 MiB of the large one will do
  EXPECT_EQ(pool.reserved(), 24 * kMib);
  pool.allocate(11 * kMib);  // a segment of its own, in steps of 2 MiB
  EXPECT_EQ(pool.reserved(), 36 * kMib);
  EXPECT_EQ(pool.allocated(), 512 + 2 * kMib + 25 * kMib + kMib);
}

TEST(PoolModel, GivesFreeBlocksOutAgainAndJoinsNeighbours) {
  PoolModel pool;
  const size_t first = pool.allocate(4 * kMib), second = pool.allocate(4 * kMib),
               third = pool.allocate(4 * kMib);
  pool.release(first);
  pool.release(third);
  pool.release(second);
  EXPECT_EQ(pool.allocated(), 0);
  EXPECT_EQ(pool.reserved(), 20 * kMib);
  pool.allocate(19 * kMib + 512);
  EXPECT_EQ(pool.reserved(), 20 * kMib);
  EXPECT_EQ(pool.allocated(), 20 * kMib);
}

TEST(PoolModel, KeepsFragmentsThatAreTooSmall) {
  PoolModel pool;
  const size_t first = pool.allocate(9 * kMib);
  const size_t second = pool.allocate(2 * kMib);
  pool.allocate(9 * kMib);
  pool.release(first);
  pool.release(second);
  EXPECT_EQ(pool.reserved(), 20 * kMib);
  const size_t joined = pool.allocate(int64_t{10} * kMib);
  EXPECT_EQ(pool.reserved(), 20 * kMib);
  EXPECT_EQ(pool.allocated(), 20 * kMib);  // a last MiB is not worth a block
  pool.release(joined);
  pool.allocate(12 * kMib);
  EXPECT_EQ(pool.reserved(), 32 * kMib);
}

}  // namespace
}  // namespace muster::memory
