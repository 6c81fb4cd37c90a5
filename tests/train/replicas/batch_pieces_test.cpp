// How many pieces a batch is cut into: what is planned is what is cut.
#include "muster/train/replicas/batch_pieces.h"

#include <numeric>

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

namespace muster::train {
namespace {

data::Batch batch_of(int64_t samples) {
  data::Batch batch;
  batch.indices.resize(static_cast<size_t>(samples));
  std::iota(batch.indices.begin(), batch.indices.end(), 0);
  batch.tensors.emplace_back("x", at::arange(samples));
  return batch;
}

TEST(BatchPieces, AreAsManyAsAreCutOfTwoSamplesAtLeast) {
  EXPECT_EQ(pieces_of_batch(12, 100), 6);
  EXPECT_EQ(pieces_of_batch(12, 4), 4);
  EXPECT_EQ(pieces_of_batch(3, 2), 1);
  EXPECT_EQ(pieces_of_batch(1, 8), 1);
  for (int64_t samples = 1; samples < 20; ++samples) {
    for (const int64_t parts : {1, 2, 3, 7, 100}) {
      const auto pieces = cut_by_samples(batch_of(samples), parts, "a test");
      EXPECT_EQ(std::ssize(pieces), pieces_of_batch(samples, parts));
      int64_t all = 0;
      for (const data::Batch& piece : pieces) {
        EXPECT_GE(piece.size(), std::min<int64_t>(2, samples));
        all += piece.size();
      }
      EXPECT_EQ(all, samples);
    }
  }
}

}  // namespace
}  // namespace muster::train
