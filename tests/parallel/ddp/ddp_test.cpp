// DistributedDataParallel as its users meet it: calls, errors, buffers, odd steps.
#include "muster/parallel/ddp/ddp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/testing/run_ranks.h"

#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::DistributedDataParallel;
using test::error_of;
using ::testing::HasSubstr;

struct TwoHeadsImpl : torch::nn::Module {
  explicit TwoHeadsImpl(int64_t width = 5) {
    body = register_module("body", torch::nn::Linear(4, width));
    left = register_module("left", torch::nn::Linear(width, 2));
    right = register_module("right", torch::nn::Linear(width, 2));
  }
  std::tuple<torch::Tensor, std::vector<torch::Tensor>> forward(torch::Tensor x,
                                                                double scale,
                                                                bool use_right = true) {
    const torch::Tensor h = torch::relu(body(x)) * scale;
    std::vector<torch::Tensor> more;
    if (use_right) more.push_back(right(h));
    return {left(h), more};
  }
  torch::nn::Linear body{nullptr}, left{nullptr}, right{nullptr};
};
TORCH_MODULE(TwoHeads);

torch::Tensor input_of(const ProcessGroup& group, int64_t step = 0) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(
      static_cast<uint64_t>(17 + 10 * step + group.rank()));
  return torch::randn({6, 4}, generator);
}

bool equal_on_all_ranks(const ProcessGroup& group, const torch::Tensor& tensor) {
  const torch::Tensor all = group.all_gather(tensor.detach());
  for (int rank = 1; rank < group.world_size(); ++rank) {
    if (!torch::equal(all[0], all[rank])) return false;
  }
  return true;
}

/// A module per rank, with weights of the rank's own: construction must make them rank 0's.
std::vector<TwoHeads> one_each(int ranks) {
  std::vector<TwoHeads> modules;
  for (int rank = 0; rank < ranks; ++rank) {
    torch::manual_seed(static_cast<uint64_t>(rank));
    TwoHeads module;
    modules.push_back(module);
  }
  return modules;
}

TEST(Ddp, TakesAnyArgumentsAndGivesAnyResult) {
  const auto modules = one_each(2);
  run_ranks(2, [&](ProcessGroup group) {
    TwoHeads net = modules[group.rank()];
    DistributedDataParallel ddp(net, group);
    auto [left, more] = ddp->forward(input_of(group), 0.5);
    (left.sum() + more[0].sum()).backward();
    for (const auto& parameter : net->parameters())
      EXPECT_TRUE(equal_on_all_ranks(group, parameter.grad()));
  });
}

TEST(Ddp, StartsEveryRankFromRankZerosWeights) {
  const auto modules = one_each(3);
  const torch::Tensor expected = modules[0]->body->weight.detach().clone();
  ASSERT_FALSE(torch::equal(expected, modules[1]->body->weight));
  run_ranks(3, [&](ProcessGroup group) {
    const DistributedDataParallel ddp(modules[group.rank()], group);
    EXPECT_TRUE(torch::equal(modules[group.rank()]->body->weight, expected));
  });
}

TEST(Ddp, WorksWithEveryOptimizersOwnZeroGrad) {
  const auto modules = one_each(2);
  run_ranks(2, [&](ProcessGroup group) {
    DistributedDataParallel ddp(modules[group.rank()], group);
    torch::optim::Adam optimizer(ddp.parameters(), 0.01);
    for (const bool set_to_none : {true, false, true}) {
      optimizer.zero_grad(set_to_none);
      auto [left, more] = ddp->forward(input_of(group), 1.0);
      (left.sum() + more[0].sum()).backward();
      optimizer.step();
    }
    for (const auto& parameter : ddp.parameters())
      EXPECT_TRUE(equal_on_all_ranks(group, parameter));
  });
}

TEST(Ddp, GradientsMayBeViewsOfTheBuckets) {
  const auto modules = one_each(2);
  run_ranks(2, [&](ProcessGroup group) {
    DistributedDataParallel ddp(modules[group.rank()], group, {.gradient_as_bucket_view = true});
    for (int step = 0; step < 3; ++step) {
      ddp.zero_grad();
      auto [left, more] = ddp->forward(input_of(group, step), 1.0);
      (left.sum() + more[0].sum()).backward();
      for (const auto& parameter : ddp.parameters()) EXPECT_TRUE(parameter.grad().is_view());
    }
  });
}

TEST(Ddp, NamesTheParametersThatGotNoGradient) {
  const auto modules = one_each(2);
  const std::string error = error_of([&] {
    run_ranks(2, [&](ProcessGroup group) {
      DistributedDataParallel ddp(modules[group.rank()], group);
      for (int step = 0; step < 2; ++step)
        std::get<0>(ddp->forward(input_of(group), 1.0, false)).sum().backward();
    });
  });
  EXPECT_THAT(error,
              HasSubstr("2 parameters got no gradient in the last step: right.weight, right.bias"));
  EXPECT_THAT(error, HasSubstr("find_unused_parameters"));
}

TEST(Ddp, LeavesUnusedParametersWithoutGradientIfAskedToFindThem) {
  const auto modules = one_each(2);
  run_ranks(2, [&](ProcessGroup group) {
    TwoHeads net = modules[group.rank()];
    DistributedDataParallel ddp(net, group, {.find_unused_parameters = true});
    for (int step = 0; step < 3; ++step) {
      ddp.zero_grad();
      std::get<0>(ddp->forward(input_of(group, step), 1.0, false)).sum().backward();
      EXPECT_FALSE(net->right->weight.grad().defined());
      EXPECT_TRUE(equal_on_all_ranks(group, net->body->weight.grad()));
    }
  });
}

TEST(Ddp, ParametersUsedOnOneRankOnlyAreAveragedWithZeros) {
  const auto modules = one_each(2);
  run_ranks(2, [&](ProcessGroup group) {
    TwoHeads net = modules[group.rank()];
    DistributedDataParallel ddp(net, group, {.find_unused_parameters = true});
    auto [left, more] = ddp->forward(torch::ones({1, 4}), 1.0, group.rank() == 1);
    torch::Tensor loss = left.sum();
    if (!more.empty()) loss = loss + more[0].sum();
    loss.backward();
    // d(sum)/d(bias) is 1 on rank 1 and nothing on rank 0.
    EXPECT_TRUE(torch::equal(net->right->bias.grad(), torch::full({2}, 0.5)));
  });
}

TEST(Ddp, AnOutputThatTheLossIgnoresIsFineWhenUnusedParametersAreSearched) {
  const auto modules = one_each(2);
  run_ranks(2, [&](ProcessGroup group) {
    DistributedDataParallel ddp(modules[group.rank()], group, {.find_unused_parameters = true});
    for (int step = 0; step < 3; ++step) {
      ddp.zero_grad();
      auto [left, ignored] = ddp->forward(input_of(group, step), 1.0, true);
      left.sum().backward();
      EXPECT_TRUE(equal_on_all_ranks(group, modules[group.rank()]->left->weight.grad()));
    }
  });
}

TEST(Ddp, ForwardWithoutBackwardDoesNotDisturbTheNextStep) {
  const auto modules = one_each(2);
  run_ranks(2, [&](ProcessGroup group) {
    DistributedDataParallel ddp(modules[group.rank()], group);
    {
      const torch::NoGradGuard no_grad;
      for (int i = 0; i < 4; ++i) ddp->forward(input_of(group), 1.0);
    }
    for (int step = 0; step < 3; ++step) {
      ddp.zero_grad();
      auto [left, more] = ddp->forward(input_of(group, step), 1.0);
      (left.sum() + more[0].sum()).backward();
      EXPECT_TRUE(equal_on_all_ranks(group, modules[group.rank()]->body->weight.grad()));
    }
  });
}

TEST(Ddp, DifferentModulesAreRefusedByNameOnEveryRank) {
  std::vector<TwoHeads> modules{TwoHeads(5), TwoHeads(6)};
  const auto errors = muster::testing::rank_errors(2, [&](ProcessGroup group) {
    const DistributedDataParallel ddp(modules[group.rank()], group);
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, HasSubstr("the ranks' modules differ"));
    EXPECT_THAT(error,
                HasSubstr("rank 0 has parameter body.weight float32[5, 4]; rank 1 has parameter "
                          "body.weight float32[6, 4]"));
  }
}

TEST(Ddp, AFrozenParameterOnOneRankIsADifference) {
  auto modules = one_each(2);
  modules[1]->left->bias.set_requires_grad(false);
  const auto errors = muster::testing::rank_errors(2, [&](ProcessGroup group) {
    const DistributedDataParallel ddp(modules[group.rank()], group);
  });
  EXPECT_THAT(errors[0], HasSubstr("left.bias"));
  EXPECT_EQ(errors[0], errors[1]);
}

TEST(Ddp, AModuleWithoutTrainedParametersIsRefused) {
  const std::string error = error_of([] {
    run_ranks(1, [](ProcessGroup group) {
      torch::nn::Linear fixed(2, 2);
      for (auto& parameter : fixed->parameters()) parameter.set_requires_grad(false);
      const DistributedDataParallel ddp(fixed, group);
    });
  });
  EXPECT_THAT(error, HasSubstr("at least one parameter that requires gradients"));
}

struct NormedImpl : torch::nn::Module {
  NormedImpl() {
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
    out = register_module("out", torch::nn::Linear(4, 1));
  }
  torch::Tensor forward(torch::Tensor x) { return out(norm(x)); }
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear out{nullptr};
};
TORCH_MODULE(Normed);

TEST(Ddp, EveryForwardStartsFromRankZerosBuffers) {
  for (const bool broadcast : {true, false}) {
    std::vector<Normed> modules{Normed(), Normed()};
    run_ranks(2, [&](ProcessGroup group) {
      Normed net = modules[group.rank()];
      DistributedDataParallel ddp(net, group, {.broadcast_buffers = broadcast});
      for (int step = 0; step < 2; ++step) ddp->forward(input_of(group, step)).sum().backward();
      // As in PyTorch: statistics are each rank's own after a forward; what is shared is where the
      // next one starts from.
      const torch::Tensor own = net->norm->running_mean.clone();
      EXPECT_FALSE(equal_on_all_ranks(group, own));
      net->eval();
      ddp->forward(input_of(group, 5)).sum().backward();
      EXPECT_EQ(equal_on_all_ranks(group, net->norm->running_mean), broadcast);
    });
  }
}

TEST(Ddp, OutlivesNeitherModuleNorHooks) {
  // After the wrapper is gone the module trains alone again: its hooks must not point into the
  // destroyed Reducer.
  run_ranks(2, [&](ProcessGroup group) {
    TwoHeads net;
    { const DistributedDataParallel ddp(net, group); }
    auto [left, more] = net->forward(input_of(group), 1.0);
    (left.sum() + more[0].sum()).backward();
    EXPECT_TRUE(net->body->weight.grad().defined());
  });
}

}  // namespace
}  // namespace muster
