// What tests of pipelines of ranks have in common.
#pragma once

#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/pipeline_ranks/distributed_pipeline.h"

#include "tests/parallel/pipeline/nets.h"
#include "tests/support/distance.h"

namespace muster::test {

/// The same chain for each rank: made here, because LibTorch's seed is one for all threads.
inline std::vector<Chain> chains(int64_t ranks, int blocks, unsigned seed, torch::Dtype dtype) {
  std::vector<Chain> all;
  for (int64_t rank = 0; rank < ranks; ++rank) all.emplace_back(blocks, seed, dtype);
  return all;
}

/// Of a rank: what it gives to a step.
inline parallel::PipelineStep step_of(parallel::DistributedPipeline& pipe,
                                      const torch::Tensor& x,
                                      const torch::Tensor& y) {
  return pipe.step(pipe.has_first_stage() ? parallel::Tensors{x} : parallel::Tensors{},
                   pipe.has_last_stage() ? parallel::Tensors{y} : parallel::Tensors{});
}

/// Puts a rank's gradients where they belong among those of all blocks.
inline void expect_own_gradients(const parallel::DistributedPipeline& pipe,
                                 const Chain& mine,
                                 const std::vector<torch::Tensor>& expected,
                                 double tolerance) {
  const auto all = mine.net->parameters();
  size_t found = 0;
  for (const torch::Tensor& parameter : pipe.parameters()) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (!all[i].is_same(parameter)) continue;
      ++found;
      EXPECT_LE(difference({parameter.grad()}, {expected[i]}), tolerance);
    }
  }
  EXPECT_EQ(found, pipe.parameters().size());
}

}  // namespace muster::test
