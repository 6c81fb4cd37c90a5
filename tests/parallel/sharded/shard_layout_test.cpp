// Who owns which elements: a partition, in balance, with borders that vectors do not cross.
#include "muster/parallel/sharded/shard_layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace muster {
namespace {

using parallel::kShardAlign;
using parallel::lay_out_shards;
using parallel::ShardBucket;
using parallel::ShardInput;
using parallel::ShardPiece;

std::vector<int64_t> numels_of(const std::vector<ShardInput>& inputs) {
  std::vector<int64_t> numels;
  for (const ShardInput& input : inputs) numels.push_back(input.numel);
  return numels;
}

std::vector<ShardInput> random_model(std::mt19937& random) {
  std::vector<ShardInput> inputs(1 + random() % 20);
  for (ShardInput& input : inputs) {
    const int64_t most = random() % 3 == 0 ? 20 : 30000;
    input.numel = static_cast<int64_t>(random() % most);
    input.kind = static_cast<int>(random() % 2);
    input.element_bytes = input.kind == 0 ? 4 : 2;
  }
  return inputs;
}

TEST(ShardLayout, GivesEachElementToExactlyOneRank) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const std::vector<ShardInput> inputs = random_model(random);
    const int world = 1 + static_cast<int>(random() % 5);
    std::map<size_t, std::vector<std::pair<int64_t, int64_t>>> owned;  // by parameter
    const auto buckets = lay_out_shards(inputs, world, 1 + random() % 100000);
    for (const ShardBucket& bucket : buckets) {
      for (int rank = 0; rank < world; ++rank) {
        int64_t last = 0;
        for (const ShardPiece& piece : bucket.pieces(rank, numels_of(inputs))) {
          EXPECT_GE(piece.offset, last) << "pieces overlap in the chunk";
          last = piece.offset + piece.end - piece.begin;
          EXPECT_LE(last, bucket.chunk);
          EXPECT_EQ(piece.begin % kShardAlign, 0);
          EXPECT_TRUE(piece.end % kShardAlign == 0 || piece.end == inputs[piece.parameter].numel);
          owned[piece.parameter].emplace_back(piece.begin, piece.end);
        }
      }
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::sort(owned[i].begin(), owned[i].end());
      int64_t next = 0;
      for (const auto& [begin, end] : owned[i]) {
        EXPECT_EQ(begin, next);
        next = end;
      }
      EXPECT_EQ(next, inputs[i].numel);
    }
  }
}

TEST(ShardLayout, BucketsHoldOneKindAndKeepTheirLimit) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const std::vector<ShardInput> inputs = random_model(random);
    const int64_t limit = 1 + static_cast<int64_t>(random() % 100000);
    for (const ShardBucket& bucket : lay_out_shards(inputs, 3, limit)) {
      int64_t bytes = 0;
      for (const size_t i : bucket.parameters) {
        EXPECT_EQ(inputs[i].kind, inputs[bucket.parameters[0]].kind);
        bytes += inputs[i].numel * inputs[i].element_bytes;
      }
      EXPECT_TRUE(bytes <= limit || bucket.parameters.size() == 1);
      EXPECT_EQ(bucket.chunk % kShardAlign, 0);
    }
  }
}

// Not so with whole parameters dealt out: one of 2048 x 2048 among small ones would be one rank's.
TEST(ShardLayout, NoRankOwnsMoreThanItsShareAndSomePadding) {
  const std::vector<ShardInput> inputs{{2048 * 784}, {2048}, {2048 * 2048}, {2048}, {20480}, {10}};
  const int64_t total = 2048 * 784 + 2048 + 2048 * 2048 + 2048 + 20480 + 10;
  for (int world = 1; world <= 8; ++world) {
    const auto buckets = lay_out_shards(inputs, world, 25 << 20);
    int64_t chunks = 0;
    for (const ShardBucket& bucket : buckets) chunks += bucket.chunk;
    const int64_t padding = kShardAlign * static_cast<int64_t>(inputs.size() + buckets.size());
    EXPECT_LE(chunks, total / world + padding) << world << " ranks";
  }
}

TEST(ShardLayout, FillsBucketsFromTheLastParameterOn) {
  const auto buckets = lay_out_shards({{100}, {100}, {100}}, 2, 1000);
  ASSERT_EQ(buckets.size(), 2U);
  EXPECT_EQ(buckets[0].parameters, (std::vector<size_t>{2, 1}));
  EXPECT_EQ(buckets[0].offsets, (std::vector<int64_t>{0, 128}));
  EXPECT_EQ(buckets[0].chunk, 128);
  EXPECT_EQ(buckets[1].parameters, (std::vector<size_t>{0}));
}

}  // namespace
}  // namespace muster
