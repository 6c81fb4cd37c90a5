// ZeRO and weights that change otherwise than by its steps; what cannot be sharded.
#include <functional>
#include <limits>
#include <optional>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/precision/grad_scaler.h"
#include "muster/parallel/sharded/zero.h"
#include "muster/testing/run_ranks.h"

#include "tests/parallel/graphs.h"
#include "tests/parallel/sharded/zero_nets.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::rank_errors;
using muster::testing::run_ranks;
using parallel::GradScaler;
using parallel::ShardedDataParallel;
using parallel::ZeroOptions;
using test::bit_equal;
using test::copies;
using test::difference;
using test::Graph;
using test::state_of;
using ::testing::HasSubstr;
using torch::Tensor;
using ShardedGraph = ShardedDataParallel<Graph>;

constexpr int kRanks = 2;

std::vector<Graph> nets(torch::Dtype dtype, int count = kRanks) {
  std::vector<Graph> all;
  for (int i = 0; i < count; ++i) all.push_back(test::three_layers(dtype));
  return all;
}

/// A step's rows, all or one rank's.
Tensor rows(int step, int rank, int world, torch::Dtype dtype) {
  return test::draw({12, 6}, 70 + static_cast<uint64_t>(step))
      .narrow(0, rank * 12 / world, 12 / world)
      .to(dtype);
}

void fill(const Graph& net, double value) {
  const torch::NoGradGuard no_grad;
  for (Tensor& parameter : net->parameters()) parameter.fill_(value);
}

torch::optim::SGD sgd_over(const std::vector<Tensor>& tensors) {
  return torch::optim::SGD(tensors, torch::optim::SGDOptions(0.1).momentum(0.9));
}

/// What happens to the module between two steps of a training.
using Event = std::function<void(Graph net)>;

struct Training {
  int stage = 2;
  torch::Dtype dtype = torch::kDouble;
  Event before_step_2;   // before its forward
  Event after_backward;  // of step 2
  int steps = 5;
};

std::vector<Tensor> train_sharded(const Training& t) {
  const auto all = nets(t.dtype);
  run_ranks(kRanks, [&](ProcessGroup group) {
    const Graph net = all[group.rank()];
    ShardedGraph zero(net, group, {.stage = t.stage, .bucket_bytes = 300});
    auto sgd = sgd_over(zero.shard());
    for (int step = 0; step < t.steps; ++step) {
      if (step == 2 && t.before_step_2) t.before_step_2(net);
      zero.zero_grad();
      zero->forward(rows(step, group.rank(), kRanks, t.dtype)).square().mean().backward();
      if (step == 2 && t.after_backward) t.after_backward(net);
      zero.step(sgd);
    }
  });
  EXPECT_TRUE(bit_equal(state_of(*all[0]), state_of(*all[1]))) << "ranks differ";
  return copies(state_of(*all[0]));
}

/// The same on one rank with float32 or wider weights.
std::vector<Tensor> train_alone(const Training& t) {
  const Graph net = nets(t.dtype, 1)[0];
  auto sgd = sgd_over(net->parameters());
  for (int step = 0; step < t.steps; ++step) {
    if (step == 2 && t.before_step_2) t.before_step_2(net);
    sgd.zero_grad();
    net->forward(rows(step, 0, 1, t.dtype)).square().mean().backward();
    if (step == 2 && t.after_backward) t.after_backward(net);
    sgd.step();
  }
  return copies(state_of(*net));
}

/// Ways to give a module weights: all as if it had been there with them from the start.
std::vector<std::pair<std::string, Event>> events(torch::Dtype dtype) {
  const Graph other = test::three_layers(dtype);
  fill(other, 0.25);
  std::ostringstream saved;
  torch::save(other, saved);
  return {{"torch::load",
           [text = saved.str()](Graph net) {
             std::istringstream file(text);
             torch::load(net, file);
           }},
          {"copied in place", [](const Graph& net) { fill(net, 0.5); }},
          {"set_data",
           [](const Graph& net) {
             for (Tensor& parameter : net->parameters())
               parameter.set_data(torch::full_like(parameter.detach(), 0.125));
           }},
          {"the same dtype again", [dtype](const Graph& net) { net->to(dtype); }},
          {"there and back", [dtype](const Graph& net) {
             net->to(torch::kDouble);
             net->to(dtype);
           }}};
}

class ZeroWeights : public ::testing::TestWithParam<int> {};

TEST_P(ZeroWeights, LoadedAfterTheWrapAreTrainedOn) {
  for (const auto& [name, event] : events(torch::kFloat)) {
    SCOPED_TRACE(name);
    Training t{.stage = GetParam(), .dtype = torch::kFloat, .before_step_2 = event};
    EXPECT_LE(difference(train_sharded(t), train_alone(t)), 1e-6);
    t = {.stage = GetParam(), .dtype = torch::kFloat, .after_backward = event};
    EXPECT_LE(difference(train_sharded(t), train_alone(t)), 1e-6) << "between backward and step";
  }
}

TEST_P(ZeroWeights, LoadedAfterTheWrapReplaceFloat32CopiesAndOthersStayExact) {
  const test::WithoutOneDnn plain;
  for (const auto& named : events(torch::kBFloat16)) {
    const auto& name = named.first;
    const auto& event = named.second;
    SCOPED_TRACE(name);
    const bool keeps = name == "the same dtype again" || name == "there and back";
    const auto all = nets(torch::kBFloat16);
    run_ranks(kRanks, [&](ProcessGroup group) {
      const Graph net = all[group.rank()];
      ShardedGraph zero(net, group, {.stage = GetParam(), .bucket_bytes = 300});
      const auto step = [&] {
        zero.zero_grad();
        zero->forward(rows(0, group.rank(), kRanks, torch::kBFloat16)).square().mean().backward();
        torch::optim::SGD sgd(zero.shard(), 1e-4);  // less than bfloat16 shows
        zero.step(sgd);
      };
      step();
      const std::vector<Tensor> before = copies(zero.shard());
      event(net);
      const std::vector<Tensor> given = copies(net->parameters());
      step();
      if (!keeps) {
        EXPECT_TRUE(bit_equal(copies(net->parameters()), given)) << "weights were taken back";
      }
      for (size_t i = 0; i < before.size(); ++i) {
        const double moved = (zero.shard()[i] - before[i]).abs().max().item<double>();
        EXPECT_EQ(moved < 1e-3, keeps) << i;
        EXPECT_TRUE(moved > 0) << "no step was made";
      }
    });
  }
}

TEST_P(ZeroWeights, OfAnotherDtypeOrUnfrozenSinceAreRefusedByName) {
  const auto errors = [&](const Event& event) {
    const auto all = nets(torch::kDouble);
    return rank_errors(kRanks, [&](ProcessGroup group) {
      const Graph net = all[group.rank()];
      net->layers[1]->bias.requires_grad_(false);
      ShardedGraph zero(net, group, {.stage = GetParam()});
      auto sgd = sgd_over(zero.shard());
      const Tensor x = rows(0, group.rank(), kRanks, torch::kDouble);
      zero->forward(x).sum().backward();
      zero.step(sgd);
      event(net);
      zero->forward(x.to(net->layers[0]->weight.scalar_type()));
    });
  };
  for (const std::string& error : errors([](const Graph& net) { net->to(torch::kFloat); }))
    EXPECT_THAT(error, HasSubstr("parameter layer0.weight: a wrapped module keeps its dtype"));
  for (const std::string& error :
       errors([](const Graph& net) { net->layers[1]->bias.requires_grad_(true); }))
    EXPECT_THAT(error, HasSubstr("parameter layer1.bias: a parameter that is trained"));
  for (const std::string& error :
       errors([](const Graph& net) { net->replace_module("layer1", torch::nn::Linear(5, 4)); }))
    EXPECT_THAT(error, HasSubstr("parameter layer1."));
}

TEST_P(ZeroWeights, AStepOfAnOptimizerOverTheModulesParametersIsRefused) {
  const auto all = nets(torch::kDouble);
  const auto errors = rank_errors(kRanks, [&](ProcessGroup group) {
    const Graph net = all[group.rank()];
    ShardedGraph zero(net, group, {.stage = GetParam()});
    auto sgd = sgd_over(net->parameters());
    zero->forward(rows(0, group.rank(), kRanks, torch::kDouble)).sum().backward();
    zero.step(sgd);
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, HasSubstr("got parameter layer0.weight of the module"));
  run_ranks(1, [](ProcessGroup group) {
    const auto two = nets(torch::kDouble);
    ShardedGraph zero(two[0], group, {.stage = 2}), other(two[1], group, {.stage = 2});
    auto sgd = sgd_over(other.shard());
    zero->forward(rows(0, 0, 1, torch::kDouble)).sum().backward();
    EXPECT_THAT(test::error_of([&] { zero.step(sgd); }), HasSubstr("got nothing of the shard"));
  });
}

TEST_P(ZeroWeights, MayTakeManyBackwardsForAStep) {
  const auto all = nets(torch::kDouble);
  run_ranks(kRanks, [&](ProcessGroup group) {
    ShardedGraph zero(all[group.rank()], group, {.stage = GetParam()});
    auto sgd = sgd_over(zero.shard());
    const auto pass = [&](int step) {
      zero->forward(rows(step, group.rank(), kRanks, torch::kDouble)).sum().backward();
    };
    for (int step = 0; step < 100; ++step) zero.accumulate([&] { pass(step); });
    pass(100);
    zero.step(sgd);
    for (int step = 0; step < 100; ++step) {  // it is known how a step is made
      zero.zero_grad();
      pass(step);
    }
  });
}

TEST_P(ZeroWeights, OfLayersWithSparseGradientsAreRefusedAtTheWrap) {
  const auto errors = rank_errors(kRanks, [&](ProcessGroup group) {
    torch::nn::Sequential net(torch::nn::EmbeddingBag(
        torch::nn::EmbeddingBagOptions(7, 4).sparse(true).mode(torch::kSum)));
    ShardedDataParallel zero(net, group, {.stage = GetParam()});
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, HasSubstr("shards of parameter 0.weight: its gradient is dense"));
    EXPECT_THAT(error, HasSubstr("sparse(false)"));
  }
}

TEST_P(ZeroWeights, MayBeComplex) {
  for (const torch::Dtype dtype : {torch::kComplexDouble, torch::kComplexFloat}) {
    std::vector<Graph> all = nets(torch::kDouble, kRanks + 1);
    const auto loss_of = [](const Tensor& y) { return y.abs().square().mean(); };
    // tanh of complex numbers has poles; this net has none.
    for (const Graph& net : all) {
      net->run = [](test::GraphImpl& self, Tensor x) {
        return self.layers[2](self.layers[1](self.layers[0](x)));
      };
      net->to(dtype);
      const torch::NoGradGuard no_grad;
      for (Tensor& parameter : net->parameters()) parameter.mul_(c10::complex<double>(0.6, 0.8));
    }
    const Graph alone = all.back();
    torch::optim::SGD theirs(alone->parameters(), 0.05);
    for (int step = 0; step < 4; ++step) {
      theirs.zero_grad();
      loss_of(alone->forward(rows(step, 0, 1, torch::kDouble).to(dtype))).backward();
      theirs.step();
    }
    run_ranks(kRanks, [&](ProcessGroup group) {
      ShardedGraph zero(all[group.rank()], group, {.stage = GetParam(), .bucket_bytes = 300});
      torch::optim::SGD ours(zero.shard(), 0.05);
      for (int step = 0; step < 4; ++step) {
        zero.zero_grad();
        loss_of(zero->forward(rows(step, group.rank(), kRanks, torch::kDouble).to(dtype)))
            .backward();
        zero.step(ours);
      }
    });
    for (int rank = 0; rank < kRanks; ++rank) {
      for (size_t i = 0; i < alone->parameters().size(); ++i) {
        const Tensor off = all[rank]->parameters()[i] - alone->parameters()[i];
        EXPECT_LE(off.abs().max().item<double>(), dtype == torch::kComplexDouble ? 1e-12 : 1e-5);
      }
    }
  }
}

// --- loss scaling

/// As train_sharded, through a scaler whose scale leaves every bit as it is; infinite in step 1.
std::vector<Tensor> train_scaled(int stage, bool unscales, bool own_group) {
  const auto all = nets(torch::kDouble);
  run_ranks(kRanks, [&](ProcessGroup group) {
    const Graph net = all[group.rank()];
    ShardedGraph zero(net, group, {.stage = stage, .bucket_bytes = 300});
    auto sgd = sgd_over(zero.shard());
    auto sharded = zero.optimizer(sgd);
    GradScaler scaler({.init_scale = 1024}, own_group ? std::optional(group) : std::nullopt);
    for (int step = 0; step < 5; ++step) {
      sharded.zero_grad();
      Tensor loss = zero->forward(rows(step, group.rank(), kRanks, torch::kDouble)).square().mean();
      // A part of one rank's gradients: whoever owns it must make the others leave the step out.
      if (step == 1 && group.rank() == 1)
        loss = loss + net->layers[0]->weight[0][0] * std::numeric_limits<double>::infinity();
      scaler.scale(loss).backward();
      if (unscales) scaler.unscale(sharded);
      EXPECT_EQ(scaler.step(sharded), step != 1);
      scaler.update();
    }
    EXPECT_EQ(scaler.scale(), 512);
  });
  EXPECT_TRUE(bit_equal(state_of(*all[0]), state_of(*all[1]))) << "ranks differ";
  return copies(state_of(*all[0]));
}

TEST_P(ZeroWeights, AreTrainedThroughAGradScaler) {
  const Graph alone = nets(torch::kDouble, 1)[0];
  auto sgd = sgd_over(alone->parameters());
  for (const int step : {0, 2, 3, 4}) {
    sgd.zero_grad();
    alone->forward(rows(step, 0, 1, torch::kDouble)).square().mean().backward();
    sgd.step();
  }
  for (const bool unscales : {false, true}) {
    for (const bool own_group : {false, true}) {
      EXPECT_LE(difference(train_scaled(GetParam(), unscales, own_group), copies(state_of(*alone))),
                1e-12);
    }
  }
}

TEST_P(ZeroWeights, AreNotSteppedByAScalerThatSeesNoGradient) {
  const auto all = nets(torch::kDouble);
  const auto errors = rank_errors(kRanks, [&](ProcessGroup group) {
    ShardedGraph zero(all[group.rank()], group, {.stage = GetParam()});
    auto sgd = sgd_over(zero.shard());
    GradScaler scaler({}, group);
    scaler.scale(zero->forward(rows(0, group.rank(), kRanks, torch::kDouble)).sum()).backward();
    scaler.step(sgd);  // not zero.optimizer(sgd)
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, HasSubstr("a GradScaler takes zero.optimizer(optimizer)"));
}

INSTANTIATE_TEST_SUITE_P(Stage, ZeroWeights, ::testing::Values(1, 2), [](const auto& info) {
  return "stage_" + std::to_string(info.param);
});

}  // namespace
}  // namespace muster
