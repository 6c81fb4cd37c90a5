// ZeRO's join and communication hooks end where DistributedDataParallel's end.
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/text.h"
#include "muster/parallel/sharded/zero.h"
#include "muster/testing/run_ranks.h"

#include "tests/parallel/sharded/zero_nets.h"
#include "tests/support/distance.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::DistributedDataParallel;
using parallel::JoinOptions;
using parallel::ShardedDataParallel;
using test::batch_of;
using test::bit_equal;
using test::copies;
using test::difference;
using test::error_of;
using test::loss_of;
using test::RandomNet;
using test::state_of;
using test::trained_of;
using ::testing::HasSubstr;
using torch::Tensor;

std::vector<RandomNet> joined_nets(int count, unsigned seed) {
  std::vector<RandomNet> nets;
  for (int rank = 0; rank < count; ++rank) {
    nets.emplace_back(seed);
    nets.back()->to(torch::kDouble);
  }
  return nets;
}

// Its epsilon is far above what sums in another order differ by: tiny gradients would make that large.
torch::optim::AdamW joined_adam(const std::vector<Tensor>& tensors) {
  return torch::optim::AdamW(tensors, torch::optim::AdamWOptions(0.01).eps(1e-3));
}

struct JoinCase {
  std::vector<int64_t> batches;  // by rank
  JoinOptions options = {};
  int64_t accumulated = 1;  // backwards of a step
  double max_norm = 0;      // 0: no clipping
};

int world_of(const JoinCase& test) { return static_cast<int>(test.batches.size()); }

/// A rank's loop: its batches by number, each with rows of its own; with weights its number of rows
/// falls from step to step.
template <class Wrapped, class Step>
void train_joined(Wrapped& wrapped, const ProcessGroup& group, const JoinCase& test, Step&& step) {
  for (int64_t i = 0; i < test.batches[static_cast<size_t>(group.rank())]; ++i) {
    wrapped.zero_grad();
    for (int64_t micro = 0; micro < test.accumulated; ++micro) {
      Tensor rows =
          batch_of(i * test.accumulated + micro, group.rank(), group.world_size(), torch::kDouble);
      if (test.options.weighted)
        rows = rows.narrow(0, 0, rows.size(0) - 1 - (i + group.rank()) % 3);
      Tensor loss = loss_of(wrapped.forward(rows));
      if (test.options.weighted) loss = wrapped.weigh(loss, rows.size(0));
      loss.backward();
    }
    step();
  }
}

std::vector<std::vector<Tensor>> joined_by_ddp(const JoinCase& test, unsigned seed) {
  const auto nets = joined_nets(world_of(test), seed);
  std::vector<std::vector<Tensor>> ends(nets.size());
  run_ranks(world_of(test), [&](ProcessGroup group) {
    const RandomNet net = nets[static_cast<size_t>(group.rank())];
    DistributedDataParallel ddp(net, group);
    auto adam = joined_adam(trained_of(*net));
    ddp.join(
        [&] {
          train_joined(ddp, group, test, [&] {
            if (test.max_norm > 0)
              torch::nn::utils::clip_grad_norm_(trained_of(*net), test.max_norm);
            adam.step();
          });
        },
        test.options);
    ends[static_cast<size_t>(group.rank())] = copies(state_of(*net));
  });
  return ends;
}

std::vector<std::vector<Tensor>> joined_by_zero(int stage, const JoinCase& test, unsigned seed) {
  const auto nets = joined_nets(world_of(test), seed);
  std::vector<std::vector<Tensor>> ends(nets.size());
  run_ranks(world_of(test), [&](ProcessGroup group) {
    const RandomNet net = nets[static_cast<size_t>(group.rank())];
    ShardedDataParallel zero(net, group, {.stage = stage, .bucket_bytes = 2048});
    auto adam = joined_adam(zero.shard());
    zero.join(
        adam,
        [&] {
          train_joined(zero, group, test, [&] {
            if (test.max_norm > 0) zero.clip_grad_norm(test.max_norm);
            zero.step(adam);
          });
        },
        test.options);
    ends[static_cast<size_t>(group.rank())] = copies(state_of(*net));
  });
  return ends;
}

void expect_ends_of_ddp(const JoinCase& test) {
  for (const unsigned seed : {1U, 2U, 5U}) {
    const auto expected = joined_by_ddp(test, seed);
    for (const int stage : {1, 2}) {
      SCOPED_TRACE(concat("stage ", stage, ", seed ", seed, ", ranks ", world_of(test)));
      const auto ours = joined_by_zero(stage, test, seed);
      for (size_t rank = 0; rank < ours.size(); ++rank)
        EXPECT_LE(difference(ours[rank], expected[rank]), 1e-12) << "rank " << rank;
    }
  }
}

TEST(ZeroJoin, EndsWhereDdpsJoinEnds) {
  for (const bool initial : {true, false}) {
    for (const std::vector<int64_t>& batches :
         std::vector<std::vector<int64_t>>{{3, 1}, {1, 3}, {0, 2}, {2, 2}, {1, 4, 2}, {3, 0, 0}})
      expect_ends_of_ddp(
          {.batches = batches, .options = {.divide_by_initial_world_size = initial}});
  }
}

TEST(ZeroJoin, ClipsWithTheOthers) {
  expect_ends_of_ddp({.batches = {3, 1}, .max_norm = 0.05});
  expect_ends_of_ddp({.batches = {1, 2, 3}, .max_norm = 0.05});
}

TEST(ZeroJoin, WeighsUnevenSharesExactly) {
  expect_ends_of_ddp({.batches = {3, 1}, .options = {.weighted = true}});
  expect_ends_of_ddp(
      {.batches = {1, 3, 2}, .options = {.divide_by_initial_world_size = false, .weighted = true}});
}

// Gradients that add up over backwards: DDP without join on as many batches is the reference, since its
// join averages each backward apart.
TEST(ZeroJoin, AddsUpBackwardsAlsoOnARankThatHasEnded) {
  for (const bool initial : {true, false}) {
    const JoinCase uneven{
        .batches = {2, 1}, .options = {.divide_by_initial_world_size = initial}, .accumulated = 2};
    // By hand: what one rank ends in, whose late batches are halved if all ranks divide.
    RandomNet net(3);
    net->to(torch::kDouble);
    auto adam = joined_adam(trained_of(*net));
    for (int64_t step = 0; step < 2; ++step) {
      adam.zero_grad();
      const int ranks = step == 0 ? 2 : 1;
      for (int64_t micro = 0; micro < 2; ++micro)
        for (int rank = 0; rank < ranks; ++rank)
          (loss_of(net->forward(batch_of(step * 2 + micro, rank, 2, torch::kDouble))) /
           (initial ? 2 : ranks))
              .backward();
      adam.step();
    }
    const std::vector<Tensor> trained = copies(trained_of(*net));
    for (const int stage : {1, 2}) {
      SCOPED_TRACE(
          concat("stage ", stage, initial ? ", by all ranks" : ", by those that are there"));
      const auto ours = joined_by_zero(stage, uneven, 3);
      EXPECT_EQ(difference(ours[0], ours[1]), 0);
      const std::vector<Tensor> of_ours(ours[0].begin(),
                                        ours[0].begin() + static_cast<int64_t>(trained.size()));
      EXPECT_LE(difference(of_ours, trained), 1e-12);
    }
  }
}

// Else a rank that has ended would add to gradients that the others no longer have.
TEST(ZeroJoin, RefusesAStepWhoseGradientsWereDroppedBehindItsForward) {
  for (const int stage : {1, 2}) {
    for (const bool by_module : {false, true}) {
      SCOPED_TRACE(concat("stage ", stage, by_module ? ", by the module" : ""));
      const auto nets = joined_nets(2, 1);
      run_ranks(2, [&](ProcessGroup group) {
        RandomNet net = nets[static_cast<size_t>(group.rank())];
        ShardedDataParallel zero(net, group, {.stage = stage});
        auto adam = joined_adam(zero.shard());
        EXPECT_THAT(error_of([&] {
                      zero.join(adam, [&] {
                        for (int64_t i = 0; i < (group.rank() == 0 ? 2 : 1); ++i) {
                          const Tensor loss =
                              loss_of(zero.forward(batch_of(i, group.rank(), 2, torch::kDouble)));
                          by_module ? net->zero_grad() : zero.zero_grad();
                          loss.backward();
                          zero.step(adam);
                        }
                      });
                    }),
                    HasSubstr("zero_grad() lies before the first forward"));
      });
    }
  }
}

// Half of a step's backwards wait for the other half.
TEST(ZeroJoin, ShadowsAStepWithoutSyncInStage1) {
  const auto nets = joined_nets(2, 3);
  std::vector<std::vector<Tensor>> ends(2);
  run_ranks(2, [&](ProcessGroup group) {
    const RandomNet net = nets[static_cast<size_t>(group.rank())];
    ShardedDataParallel zero(net, group, {.stage = 1});
    auto adam = joined_adam(zero.shard());
    zero.join(adam, [&] {
      for (int64_t i = 0; i < (group.rank() == 0 ? 1 : 3); ++i) {
        zero.zero_grad();
        for (int64_t micro = 0; micro < 2; ++micro) {
          const auto scope = zero.accumulate(micro, 2);
          loss_of(zero.forward(batch_of(2 * i + micro, group.rank(), 2, torch::kDouble)))
              .backward();
        }
        zero.step(adam);
      }
    });
    ends[static_cast<size_t>(group.rank())] = copies(state_of(*net));
  });
  EXPECT_EQ(difference(ends[0], ends[1]), 0);
  RandomNet net(3);
  net->to(torch::kDouble);
  auto adam = joined_adam(trained_of(*net));
  for (int64_t i = 0; i < 3; ++i) {
    adam.zero_grad();
    for (int64_t micro = 0; micro < 2; ++micro)
      for (int rank = i == 0 ? 0 : 1; rank < 2; ++rank)
        (loss_of(net->forward(batch_of(2 * i + micro, rank, 2, torch::kDouble))) / 2).backward();
    adam.step();
  }
  const std::vector<Tensor> trained = copies(trained_of(*net));
  const std::vector<Tensor> of_ours(ends[0].begin(),
                                    ends[0].begin() + static_cast<int64_t>(trained.size()));
  EXPECT_LE(difference(of_ours, trained), 1e-12);
}

TEST(ZeroJoin, EndsAllWhereOneEndsIfThatIsAsked) {
  const auto nets = joined_nets(2, 1);
  run_ranks(2, [&](ProcessGroup group) {
    ShardedDataParallel zero(nets[static_cast<size_t>(group.rank())], group, {.stage = 2});
    auto adam = joined_adam(zero.shard());
    const JoinCase test{.batches = {1, 2}};
    EXPECT_THAT(error_of([&] {
                  zero.join(adam,
                            [&] { train_joined(zero, group, test, [&] { zero.step(adam); }); },
                            {.throw_on_early_termination = true});
                }),
                HasSubstr("rank 0 has no more batches"));
  });
}

TEST(ZeroJoin, RefusesStage3AndOtherOptimizers) {
  const auto nets = joined_nets(2, 1), others = joined_nets(2, 1);
  run_ranks(2, [&](ProcessGroup group) {
    const RandomNet net = nets[static_cast<size_t>(group.rank())];
    {
      const RandomNet other = others[static_cast<size_t>(group.rank())];
      ShardedDataParallel zero(other, group, {.stage = 3, .units = other->units()});
      auto adam = joined_adam(zero.shard());
      EXPECT_THAT(error_of([&] { zero.join(adam, [] {}); }), HasSubstr("weigh(loss, 0)"));
    }
    ShardedDataParallel zero(net, group, {.stage = 2});
    auto wrong = joined_adam(trained_of(*net));
    EXPECT_THAT(error_of([&] { zero.join(wrong, [] {}); }), HasSubstr("zero.shard()"));
    auto adam = joined_adam(zero.shard());
    EXPECT_THAT(error_of([&] { zero.join(adam, [&] { zero.join(adam, [] {}); }); }),
                HasSubstr("join within join"));
  });
}

std::vector<Tensor> hooked_by_ddp(int world, const std::string& hook, unsigned seed) {
  const auto nets = joined_nets(world, seed);
  run_ranks(world, [&](ProcessGroup group) {
    const RandomNet net = nets[static_cast<size_t>(group.rank())];
    DistributedDataParallel ddp(net, group, {.comm_hook = hook});
    auto adam = joined_adam(trained_of(*net));
    for (int64_t step = 0; step < 3; ++step) {
      adam.zero_grad();
      loss_of(ddp.forward(batch_of(step, group.rank(), world, torch::kDouble))).backward();
      adam.step();
    }
  });
  return copies(state_of(*nets[0]));
}

std::vector<Tensor> hooked_by_zero(int stage, int world, const std::string& hook, unsigned seed) {
  const auto nets = joined_nets(world, seed);
  std::vector<Tensor> end;
  run_ranks(world, [&](ProcessGroup group) {
    const RandomNet net = nets[static_cast<size_t>(group.rank())];
    ShardedDataParallel zero(
        net,
        group,
        {.stage = stage,
         .bucket_bytes = 2048,
         .comm_hook = hook,
         .units = stage == 3 ? net->units() : std::vector<parallel::ShardUnit>()});
    auto adam = joined_adam(zero.shard());
    for (int64_t step = 0; step < 3; ++step) {
      adam.zero_grad();
      loss_of(zero.forward(batch_of(step, group.rank(), world, torch::kDouble))).backward();
      zero.step(adam);
    }
    const auto whole = zero.whole_weights();
    if (group.rank() == 0) end = copies(state_of(*net));
  });
  return end;
}

// Each gradient is rounded by itself, so buckets may be cut as they like.
TEST(ZeroHooks, HaveTheNumbersOfDdpsInAllStages) {
  for (const std::string hook : {"none", "fp16", "bf16"}) {
    for (const int world : {2, 3}) {
      for (const unsigned seed : {1U, 2U}) {
        const auto expected = hooked_by_ddp(world, hook, seed);
        for (const int stage : {1, 2, 3}) {
          SCOPED_TRACE(concat(hook, ", stage ", stage, ", ", world, " ranks, seed ", seed));
          EXPECT_LE(difference(hooked_by_zero(stage, world, hook, seed), expected), 1e-12);
        }
      }
    }
  }
  EXPECT_GT(difference(hooked_by_zero(2, 2, "fp16", 1), hooked_by_zero(2, 2, "none", 1)), 1e-9);
}

TEST(ZeroHooks, ThatAverageWholeBucketsAreRefusedAtTheWrap) {
  const auto nets = joined_nets(2, 1);
  run_ranks(2, [&](ProcessGroup group) {
    const RandomNet net = nets[static_cast<size_t>(group.rank())];
    for (const char* hook : {"powersgd", "powersgd:rank=2,start=0"})
      EXPECT_THAT(
          error_of([&] { ShardedDataParallel(net, group, {.stage = 2, .comm_hook = hook}); }),
          HasSubstr("take fp16 or bf16, stage 1"));
    ShardedDataParallel zero(net, group, {.stage = 2});
    EXPECT_THAT(error_of([&] {
                  zero.register_comm_hook([&](c10d::GradBucket& bucket) {
                    std::vector<Tensor> sum{bucket.getBuffer()};
                    return parallel::BucketReduction(group.c10d()->allreduce(sum));
                  });
                }),
                HasSubstr("averages whole buckets"));
    zero.register_comm_hook(parallel::make_comm_hook("bf16", group));
    EXPECT_THAT(error_of([&] { zero.register_comm_hook(parallel::make_comm_hook("bf16", group)); }),
                HasSubstr("there is one already"));
    EXPECT_TRUE(zero.state().empty());
  });
}

}  // namespace
}  // namespace muster
