// A small training run on ranks that are threads, for the tests of the loop.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/testing/run_ranks.h"
#include "muster/train/classifier/trainer.h"

namespace muster::test {

inline train::TrainOptions small_run() {
  train::TrainOptions options;
  options.model = "cnn:width=4,hidden=16";
  options.data = "synthetic:samples=220,test_samples=60,size=8,classes=4,noise=0.3";
  options.epochs = 2;
  options.batch_size = 16;
  options.workers = 0;
  options.validation_samples = 20;
  options.log_every = 5;
  options.keep_checkpoints = 1000;
  return options;
}

struct Ran {
  train::FitResult result;
  train::Checkpoint last;
};

/// Runs `options` on thread ranks, from a checkpoint if one is given, stopping after `stop_after`
/// steps of this run if not 0.
inline Ran run(const train::TrainOptions& options,
               int world,
               const std::filesystem::path& output,
               const std::optional<std::filesystem::path>& resume = {},
               int64_t stop_after = 0,
               const std::string& backend = "thread") {
  std::vector<train::FitResult> results(world);
  const auto rank_main = [&](distributed::ProcessGroup group) {
    const train::TrainData data = train::open_data(options.data, {});
    const train::TrainPlan plan =
        train::resolve(options,
                       {.world_size = world, .local_world_size = world, .cores = 2},
                       *data.train,
                       *data.test);
    std::optional<train::Checkpoint> checkpoint;
    if (resume) checkpoint = train::read_checkpoint(*resume);
    int64_t asked = 0;
    // Only the last rank wants to stop: all must.
    const bool asks = group.rank() == world - 1;
    results[group.rank()] =
        train::train(plan, data, group, output, checkpoint, {.stop_requested = [&] {
                       return asks && stop_after > 0 && ++asked >= stop_after;
                     }});
  };
  testing::run_ranks(world, rank_main, {.backend = backend});
  for (const auto& result : results) EXPECT_EQ(result.interrupted, results[0].interrupted);
  return {results[0], train::read_checkpoint(results[0].checkpoint)};
}

/// The same by that strategy.
inline Ran run_as(const std::string& strategy,
                  train::TrainOptions options,
                  int world,
                  const std::filesystem::path& output,
                  const std::optional<std::filesystem::path>& resume = {},
                  int64_t stop_after = 0,
                  const std::string& backend = "thread") {
  options.strategy = strategy;
  return run(options, world, output, resume, stop_after, backend);
}

inline void expect_same_state(const train::Checkpoint& a, const train::Checkpoint& b) {
  EXPECT_EQ(a.position, b.position);
  const auto same = [](const tensor::NamedTensorList& x, const tensor::NamedTensorList& y) {
    ASSERT_EQ(x.size(), y.size());
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(x[i].first, y[i].first);
      EXPECT_TRUE(torch::equal(x[i].second, y[i].second)) << x[i].first;
    }
  };
  same(a.model, b.model);
  same(a.optimizer, b.optimizer);
}

/// The largest difference between two runs' parameters and buffers.
inline double model_difference(const train::Checkpoint& a, const train::Checkpoint& b) {
  double most = 0;
  EXPECT_EQ(a.model.size(), b.model.size());
  for (size_t i = 0; i < a.model.size(); ++i)
    most = std::max(most, (a.model[i].second - b.model[i].second).abs().max().item().toDouble());
  return most;
}

}  // namespace muster::test
