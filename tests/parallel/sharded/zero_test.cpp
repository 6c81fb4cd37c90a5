// ZeRO-1 and -2 against DDP and against one rank.
#include "muster/parallel/sharded/zero.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/meet/backend.h"
#include "muster/testing/run_ranks.h"

#include "tests/parallel/sharded/zero_nets.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::DistributedDataParallel;
using parallel::ShardedDataParallel;
using parallel::ZeroOptions;
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

using Tensors = std::vector<torch::Tensor>;

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name,
                                                        const Tensors& parameters) {
  using namespace torch::optim;
  if (name == "sgd")
    return std::make_unique<SGD>(parameters, SGDOptions(0.05).momentum(0.9).weight_decay(1e-3));
  if (name == "adamw") return std::make_unique<AdamW>(parameters, AdamWOptions(0.01));
  if (name == "rmsprop") return std::make_unique<RMSprop>(parameters, RMSpropOptions(0.003));
  if (name == "adagrad") return std::make_unique<Adagrad>(parameters, AdagradOptions(0.02));
  return std::make_unique<Adam>(parameters, AdamOptions(0.01).amsgrad(true));
}

/// One training of a random network. Modules are made before the ranks start: the weights come from
/// torch's one generator.
struct Case {
  unsigned seed = 0;
  int world = 1;
  std::string optimizer = "adam";
  torch::Dtype dtype = torch::kFloat;
  std::string backend = "thread";
  int steps = 4;
  double clip = 0;
  int64_t bucket_bytes = 2000;

  std::vector<RandomNet> modules() const {
    std::vector<RandomNet> nets;
    for (int rank = 0; rank < world; ++rank) {
      nets.emplace_back(seed);
      nets.back()->to(dtype);
    }
    return nets;
  }
};

Tensors train_ddp(const Case& c) {
  const auto nets = c.modules();
  run_ranks(c.world,
            [&](ProcessGroup group) {
              RandomNet net = nets[group.rank()];
              DistributedDataParallel ddp(net, group);
              const auto optimizer = make_optimizer(c.optimizer, trained_of(*net));
              for (int step = 0; step < c.steps; ++step) {
                optimizer->zero_grad();
                loss_of(ddp->forward(batch_of(step, group.rank(), c.world, c.dtype))).backward();
                if (c.clip > 0) torch::nn::utils::clip_grad_norm_(trained_of(*net), c.clip);
                optimizer->step();
              }
            },
            {.backend = c.backend});
  return copies(state_of(*nets[0]));
}

Tensors train_zero(const Case& c, int stage) {
  const auto nets = c.modules();
  std::vector<Tensors> trained(nets.size());
  Tensors state;  // of rank 0
  run_ranks(c.world,
            [&](ProcessGroup group) {
              RandomNet net = nets[group.rank()];
              ZeroOptions options{.stage = stage, .bucket_bytes = c.bucket_bytes};
              if (stage == 3) options.units = net->units();
              ShardedDataParallel zero(net, group, options);
              const auto optimizer = make_optimizer(c.optimizer, zero.shard());
              for (int step = 0; step < c.steps; ++step) {
                zero.zero_grad();
                loss_of(zero->forward(batch_of(step, group.rank(), c.world, c.dtype))).backward();
                if (c.clip > 0) zero.clip_grad_norm(c.clip);
                zero.step(*optimizer);
              }
              const auto whole = zero.whole_weights();
              trained[group.rank()] = copies(trained_of(*net));
              if (group.rank() == 0) state = copies(state_of(*net));
            },
            {.backend = c.backend});
  for (const Tensors& each : trained) {  // buffers are rank 0's from the next forward on
    EXPECT_TRUE(bit_equal(each, trained[0])) << "ranks differ";
  }
  return state;
}

/// Seeds of networks without BatchNorm, whose batch statistics differ by design between ranks.
std::vector<unsigned> plain_seeds(size_t count) {
  std::vector<unsigned> seeds;
  for (unsigned seed = 0; seeds.size() < count; ++seed) {
    if (RandomNet(seed)->buffers().empty()) seeds.push_back(seed);
  }
  return seeds;
}

class Zero : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int stage() const { return std::get<0>(GetParam()); }
  int world() const { return std::get<1>(GetParam()); }
};

// The property: whatever the network, the optimizer and the buckets, results are DDP's.
TEST_P(Zero, EqualsDdpBitForBitForRandomModels) {
  const char* const optimizers[] = {"adam", "sgd", "adamw", "rmsprop", "adagrad"};
  std::mt19937 random(static_cast<unsigned>(10 * stage() + world()));
  for (int round = 0; round < 10; ++round) {
    const Case c{.seed = static_cast<unsigned>(random() % 1000),
                 .world = world(),
                 .optimizer = optimizers[round % 5],
                 .dtype = round % 2 == 0 ? torch::kFloat : torch::kDouble,
                 .bucket_bytes = 100 + static_cast<int64_t>(random() % 30000)};
    EXPECT_TRUE(bit_equal(train_zero(c, stage()), train_ddp(c)))
        << "seed " << c.seed << ", " << c.optimizer << ", bucket_bytes " << c.bucket_bytes;
  }
}

TEST_P(Zero, EqualsOneRankOnTheWholeBatchAfterTwentySteps) {
  for (const unsigned seed : plain_seeds(4)) {
    Case c{
        .seed = seed, .world = world(), .optimizer = "sgd", .dtype = torch::kDouble, .steps = 20};
    Case alone = c;
    alone.world = 1;
    EXPECT_LE(difference(train_zero(c, stage()), train_ddp(alone)), 1e-12) << seed;
    c.dtype = alone.dtype = torch::kFloat;
    EXPECT_LE(difference(train_zero(c, stage()), train_ddp(alone)), 1e-5) << seed;
  }
}

TEST_P(Zero, ClipsByTheNormOfAllShardsAndTiedWeightsOnce) {
  bool tied = false;
  for (unsigned seed = 0; seed < 6; ++seed) {
    const Case c{
        .seed = seed, .world = world(), .optimizer = "sgd", .dtype = torch::kDouble, .clip = 0.01};
    tied |= c.modules()[0]->tied.defined();
    EXPECT_LE(difference(train_zero(c, stage()), train_ddp(c)), 1e-12) << seed;
  }
  EXPECT_TRUE(tied);
}

INSTANTIATE_TEST_SUITE_P(Stage,
                         Zero,
                         ::testing::Combine(::testing::Values(1, 2, 3), ::testing::Range(1, 5)),
                         [](const auto& info) {
                           return concat(std::get<0>(info.param), "_on_", std::get<1>(info.param));
                         });

/// Backends whose sums are in another order for DDP's buckets and for ours.
class ZeroOver : public ::testing::TestWithParam<const char*> {};

TEST_P(ZeroOver, AgreesWithDdpWithinRounding) {
  for (const int stage : {1, 2, 3}) {
    for (const unsigned seed : {3U, 5U}) {
      // Not Adam, which divides tiny gradients by themselves, rounding and all.
      Case c{.seed = seed,
             .world = 3,
             .optimizer = "sgd",
             .dtype = torch::kDouble,
             .backend = GetParam()};
      EXPECT_LE(difference(train_zero(c, stage), train_ddp(c)), 1e-12);
      c.dtype = torch::kFloat;
      EXPECT_LE(difference(train_zero(c, stage), train_ddp(c)), 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backend, ZeroOver, ::testing::Values("shm", "gloo"), [](const auto& info) {
  return std::string(info.param);
});

TEST(ZeroBackends, ThatSumInTheOrderOfRanksGiveTheSameBits) {
  for (const std::string backend : {"thread", "shm"}) {
    if (distributed::backends().find(backend) == nullptr) continue;
    for (const int stage : {1, 2, 3}) {
      Case c{.seed = 3, .world = 3, .backend = backend};
      const Tensors got = train_zero(c, stage);
      c.backend = "thread";
      EXPECT_TRUE(bit_equal(got, train_ddp(c))) << backend << ", stage " << stage;
    }
  }
}

/// Accumulates two batches per step; returns the state after two steps.
Tensors accumulate_two(int stage, int world) {
  const Case c{.seed = plain_seeds(1)[0], .world = world, .dtype = torch::kDouble};
  const auto nets = c.modules();
  Tensors state;
  run_ranks(world, [&](ProcessGroup group) {
    RandomNet net = nets[group.rank()];
    ZeroOptions options{.stage = stage, .bucket_bytes = 2000};
    if (stage == 3) options.units = net->units();
    ShardedDataParallel zero(net, group, options);
    torch::optim::SGD sgd(zero.shard(), 0.1);
    for (int step = 0; step < 4; step += 2) {
      const auto pass = [&](int batch) {
        loss_of(zero->forward(batch_of(batch, group.rank(), world, c.dtype))).backward();
      };
      zero.zero_grad();
      zero.accumulate([&] { pass(step); });
      pass(step + 1);
      zero.step(sgd);
    }
    const auto whole = zero.whole_weights();
    if (group.rank() == 0) state = copies(state_of(*net));
  });
  return state;
}

TEST(ZeroGradients, AddUpOverSeveralBackwards) {
  const Tensors alone = accumulate_two(1, 1);
  EXPECT_LE(difference(accumulate_two(1, 2), alone), 1e-12);
  EXPECT_LE(difference(accumulate_two(2, 2), alone), 1e-12);
  EXPECT_LE(difference(accumulate_two(2, 3), alone), 1e-12);
  EXPECT_LE(difference(accumulate_two(3, 2), alone), 1e-12);
  EXPECT_LE(difference(accumulate_two(3, 3), alone), 1e-12);
}

TEST(ZeroGradients, OfStageTwoAreGoneFromTheParameters) {
  const Case c{.seed = 1, .world = 2};
  const auto nets = c.modules();
  run_ranks(2, [&](ProcessGroup group) {
    RandomNet net = nets[group.rank()];
    ShardedDataParallel zero(net, group, {.stage = 2});
    loss_of(zero->forward(batch_of(0, group.rank(), 2, c.dtype))).backward();
    int marks = 0;  // see Note [Gradient marks]
    for (const torch::Tensor& parameter : net->parameters()) {
      if (!parameter.grad().defined()) continue;
      ++marks;
      EXPECT_ANY_THROW(parameter.grad().sum());
    }
    EXPECT_LE(marks, 1);
  });
}

struct TwoHeadsImpl : torch::nn::Module {
  TwoHeadsImpl() {
    body = register_module("body", torch::nn::Linear(4, 5));
    left = register_module("left", torch::nn::Linear(5, 2));
    right = register_module("right", torch::nn::Linear(5, 2));
  }
  torch::Tensor forward(torch::Tensor x, bool use_right) {
    const torch::Tensor h = torch::tanh(body(x));
    return use_right ? left(h) + right(h) : left(h);
  }
  torch::nn::Linear body{nullptr}, left{nullptr}, right{nullptr};
};
TORCH_MODULE(TwoHeads);

std::vector<TwoHeads> heads(int ranks) {
  std::vector<TwoHeads> nets;
  for (int rank = 0; rank < ranks; ++rank) {
    torch::manual_seed(7);
    nets.emplace_back();
  }
  return nets;
}

TEST(ZeroGradients, OfUnusedParametersAreMissedByName) {
  const auto nets = heads(2);
  std::vector<std::string> errors(2);
  run_ranks(2, [&](ProcessGroup group) {
    ShardedDataParallel zero(nets[group.rank()], group, {.stage = 2});
    errors[group.rank()] = error_of([&] {
      zero->forward(torch::ones({3, 4}), false).sum().backward();
    });
    // The next backward starts anew.
    zero.zero_grad();
    zero->forward(torch::ones({3, 4}), true).sum().backward();
  });
  EXPECT_THAT(errors[0],
              HasSubstr("rank 0: 2 parameters got no gradient: right.weight, right.bias"));
  EXPECT_THAT(errors[1], HasSubstr("find_unused_parameters"));
}

TEST(ZeroGradients, OfABackwardAfterOneThatThrewAreItsOwn) {
  const auto nets = heads(2), twins = heads(2);
  run_ranks(2, [&](ProcessGroup group) {
    const auto train = [&](TwoHeads net, bool throws) {
      ShardedDataParallel zero(net, group, {.stage = 2});
      torch::optim::SGD sgd(zero.shard(), 0.1);
      const auto pass = [&] {
        const torch::Tensor x = batch_of(0, group.rank(), 2, torch::kFloat).narrow(1, 0, 4);
        zero->forward(x, true).square().sum().backward();
      };
      if (throws) {
        const unsigned hook = net->body->weight.register_hook(
            [](const torch::Tensor&) { throw std::runtime_error("no gradient"); });
        EXPECT_THAT(error_of(pass), HasSubstr("no gradient"));
        net->body->weight.remove_hook(hook);
      }
      pass();
      zero.step(sgd);
    };
    train(nets[group.rank()], true);
    train(twins[group.rank()], false);
    EXPECT_TRUE(bit_equal(state_of(*nets[group.rank()]), state_of(*twins[group.rank()])));
  });
}

constexpr int kHeadSteps = 3;

/// The sum of the scores of a rank's rows in a step: `right` takes part in step 1 alone, and there
/// on ranks below `first`.
torch::Tensor heads_loss(TwoHeads& net, int step, int rank, int first) {
  const torch::Tensor x = batch_of(step, rank, 2, torch::kDouble).narrow(1, 0, 4);
  return net->forward(x, step == 1 && rank < first).sum();
}

torch::optim::SGD heads_sgd(const Tensors& parameters) {
  return torch::optim::SGD(parameters, torch::optim::SGDOptions(0.1).momentum(0.9));
}

/// The mean over two ranks, on one.
Tensors train_heads_alone(int first) {
  TwoHeads net = heads(1)[0];
  net->to(torch::kDouble);
  torch::optim::SGD sgd = heads_sgd(net->parameters());
  for (int step = 0; step < kHeadSteps; ++step) {
    sgd.zero_grad();
    ((heads_loss(net, step, 0, first) + heads_loss(net, step, 1, first)) / 2).backward();
    sgd.step();
  }
  return copies(state_of(*net));
}

// With momentum a gradient of zeros would still move what no gradient leaves alone.
TEST(ZeroGradients, OfParametersThatNoRankReachedLeaveTheirStateAlone) {
  for (const int first : {0, 1, 2}) {
    auto nets = heads(2);
    for (TwoHeads& net : nets) net->to(torch::kDouble);
    run_ranks(2, [&](ProcessGroup group) {
      TwoHeads net = nets[group.rank()];
      ShardedDataParallel zero(net, group, {.stage = 2, .find_unused_parameters = true});
      torch::optim::SGD sgd = heads_sgd(zero.shard());
      for (int step = 0; step < kHeadSteps; ++step) {
        zero.zero_grad();
        zero.core().before_forward();
        heads_loss(net, step, group.rank(), first).backward();
        zero.step(sgd);
      }
    });
    EXPECT_LE(difference(state_of(*nets[1]), train_heads_alone(first)), 1e-12) << first;
  }
}

}  // namespace
}  // namespace muster
