// Twenty optimizer steps of a pipeline are those of one device: random models and cuts, all schedules.
#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/text.h"
#include "muster/parallel/pipeline/pipeline.h"
#include "muster/pipeline/schedule/schedule.h"

#include "tests/parallel/pipeline/nets.h"
#include "tests/support/distance.h"
#include "tests/support/seed.h"

namespace muster {
namespace {

using parallel::blocks_of;
using parallel::Pipeline;
using test::Chain;
using test::squares;

using Parameters = std::vector<torch::Tensor>;
using OptimizerPtr = std::unique_ptr<torch::optim::Optimizer>;

constexpr int kSteps = 20;

OptimizerPtr momentum(const Parameters& parameters) {
  return std::make_unique<torch::optim::SGD>(parameters,
                                             torch::optim::SGDOptions(0.01).momentum(0.9));
}

/// Adam divides by the size of a gradient: where that is rounding, and the epsilon as small as usual, the step is rounding, too
/// (docs/pipelines.md has numbers).
OptimizerPtr adam(const Parameters& parameters) {
  return std::make_unique<torch::optim::AdamW>(parameters,
                                               torch::optim::AdamWOptions(0.01).eps(1e-3));
}

/// A norm over two numbers that are nearly alike makes 1e-12 of rounding in 20 steps on one device, too.
Chain without_norms(int blocks, unsigned seed, torch::Dtype dtype) {
  Chain chain(blocks, seed, torch::kFloat);
  chain.net->to(dtype);
  chain.options = chain.options.dtype(dtype);
  return chain;
}

/// The largest difference between parameters.
double furthest(torch::Dtype dtype, OptimizerPtr (*make)(const Parameters&), unsigned seed) {
  std::mt19937 random(seed);
  double found = 0;
  for (const auto* entry : pipeline::schedules()) {
    for (const int64_t ranks : {2, 4}) {
      const int64_t stages = ranks * entry->stages_per_rank;
      const int blocks = int(stages + int64_t(random() % 3));
      const auto shape = unsigned(random());
      Chain alone = without_norms(blocks, shape, dtype), cut = without_norms(blocks, shape, dtype);
      const int64_t micro_batches = ranks * (1 + int64_t(random() % 2));
      const int64_t rows = micro_batches + int64_t(random() % 9);  // mostly uneven
      parallel::PipelineOptions options{.schedule = std::string(entry->name),
                                        .micro_batches = micro_batches};
      options.first_block = test::random_split(blocks, stages, random);
      Pipeline pipe(blocks_of(cut.net), test::ranks_on_cpu(ranks), &squares, options);
      const OptimizerPtr one = make(alone.net->parameters()), two = make(pipe.parameters());
      for (int step = 0; step < kSteps; ++step) {
        const torch::Tensor x = alone.inputs(rows), y = alone.targets(rows);
        one->zero_grad();
        squares({alone.net->forward(x)}, {y}).backward();
        one->step();
        two->zero_grad();
        pipe.step({x}, {y});
        two->step();
      }
      found = std::max(found, test::difference(alone.net->parameters(), cut.net->parameters()));
    }
  }
  return found;
}

TEST(PipelineOptimizerSteps, TwentyAreThoseOfOneDevice) {
  const unsigned seed = test::seed_of_test();
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  EXPECT_LE(furthest(torch::kDouble, &momentum, seed), 1e-12);
  EXPECT_LE(furthest(torch::kDouble, &adam, seed), 1e-12);
  EXPECT_LE(furthest(torch::kFloat, &adam, seed), 1e-5);
}

}  // namespace
}  // namespace muster
