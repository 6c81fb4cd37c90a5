// SyncBatchNorm against BatchNorm on the whole batch.
#include "muster/parallel/batch_norm/sync_batch_norm.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/ddp/ddp.h"
#include "muster/testing/run_ranks.h"

#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::SyncBatchNorm;
using test::error_of;
using ::testing::HasSubstr;

torch::Tensor draw(torch::IntArrayRef sizes, uint64_t seed, torch::Dtype dtype = torch::kDouble) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(seed);
  // A mean far from 0 would show a variance that is computed as a difference of squares.
  return (torch::randn(sizes, generator, torch::kDouble) * 0.5 + 100).to(dtype);
}

/// BatchNorm of any number of dimensions, as ATen computes it.
struct Reference {
  torch::Tensor weight, bias, mean, variance;
  torch::Tensor run(const torch::Tensor& x, double momentum) {
    return torch::batch_norm(x, weight, bias, mean, variance, true, momentum, 1e-5, false);
  }
};

struct Case {
  std::vector<int64_t> rest;  // dimensions behind [N, C]
  std::vector<int64_t> rows;  // of each rank
  std::string backend;
};

class SyncBatchNormOverRanks : public ::testing::TestWithParam<Case> {};

TEST_P(SyncBatchNormOverRanks, EqualsBatchNormOnTheWholeBatchForwardBackwardAndInItsStatistics) {
  // By name: clang 14 lets no lambda see a structured binding.
  const std::vector<int64_t>&rest = GetParam().rest, &rows = GetParam().rows;
  const std::string& backend = GetParam().backend;
  const int64_t channels = 3, all_rows = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  std::vector<int64_t> shape{all_rows, channels};
  shape.insert(shape.end(), rest.begin(), rest.end());
  const torch::Tensor gradient = draw(shape, 99) - 100;

  Reference whole{.weight = draw({channels}, 1) - 99,
                  .bias = draw({channels}, 2) - 100,
                  .mean = torch::zeros({channels}, torch::kDouble),
                  .variance = torch::ones({channels}, torch::kDouble)};
  const torch::Tensor weight = whole.weight.clone(), bias = whole.bias.clone();
  whole.weight.requires_grad_();
  whole.bias.requires_grad_();
  std::vector<torch::Tensor> inputs, outputs;
  for (uint64_t step = 0; step < 2; ++step) {
    inputs.push_back(draw(shape, 10 + step).requires_grad_());
    outputs.push_back(whole.run(inputs.back(), 0.1));
    outputs.back().backward(gradient);
  }

  run_ranks(
      static_cast<int>(rows.size()),
      [&](ProcessGroup group) {
        SyncBatchNorm norm(torch::nn::BatchNormOptions(channels), group);
        norm->to(torch::kDouble);
        {
          const torch::NoGradGuard no_grad;
          norm->weight.copy_(weight);
          norm->bias.copy_(bias);
        }
        const int64_t from = std::accumulate(rows.begin(), rows.begin() + group.rank(), int64_t{0});
        const auto share = [&](const torch::Tensor& tensor) {
          return tensor.detach().narrow(0, from, rows[group.rank()]).clone();
        };
        for (size_t step = 0; step < 2; ++step) {
          const torch::Tensor x = share(inputs[step]).requires_grad_();
          const torch::Tensor y = norm->forward(x);
          y.backward(share(gradient));
          EXPECT_LE((y - share(outputs[step])).abs().sum().item<double>(), 1e-10);
          EXPECT_TRUE(torch::allclose(y, share(outputs[step]), 1e-12, 1e-12));
          EXPECT_TRUE(torch::allclose(x.grad(), share(inputs[step].grad()), 1e-12, 1e-12));
        }
        for (const auto& [ours, theirs] : {std::pair{norm->weight.grad(), whole.weight.grad()},
                                           std::pair{norm->bias.grad(), whole.bias.grad()}}) {
          torch::Tensor sum = ours.defined() ? ours.clone() : torch::zeros_like(theirs);
          group.all_reduce(sum);
          EXPECT_TRUE(torch::allclose(sum, theirs, 1e-12, 1e-12));
        }
        EXPECT_TRUE(torch::allclose(norm->running_mean, whole.mean, 1e-13, 0));
        EXPECT_TRUE(torch::allclose(norm->running_var, whole.variance, 1e-12, 0));
        EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 2);
      },
      {.backend = backend});
}

INSTANTIATE_TEST_SUITE_P(Shapes,
                         SyncBatchNormOverRanks,
                         ::testing::Values(Case{{}, {8}, "thread"},
                                           Case{{}, {4, 4}, "thread"},
                                           Case{{}, {1, 1}, "thread"},
                                           Case{{5}, {3, 1, 4}, "thread"},
                                           Case{{4, 3}, {2, 5, 0, 1}, "thread"},
                                           Case{{4, 3}, {0, 6}, "gloo"},
                                           Case{{2, 2, 3}, {3, 2}, "thread"}));

TEST(SyncBatchNorm, HalfPrecisionIsNormalisedInFloat32) {
  run_ranks(2, [](ProcessGroup group) {
    SyncBatchNorm norm(torch::nn::BatchNormOptions(3), group);
    const torch::Tensor x = draw({16, 3}, 5 + static_cast<uint64_t>(group.rank())) - 100;
    const torch::Tensor wide = norm->forward(x.to(torch::kFloat));
    const torch::Tensor half = norm->forward(x.to(torch::kBFloat16));
    EXPECT_EQ(half.scalar_type(), torch::kBFloat16);
    EXPECT_TRUE(torch::allclose(half.to(torch::kFloat), wide, 0, 0.03));
  });
}

TEST(SyncBatchNorm, IsABatchNormInEvaluationAndWithoutAGroup) {
  SyncBatchNorm ours(torch::nn::BatchNormOptions(4).momentum(std::nullopt));
  torch::nn::BatchNorm2d theirs(torch::nn::BatchNorm2dOptions(4).momentum(std::nullopt));
  for (uint64_t step = 0; step < 3; ++step) {
    const torch::Tensor x = draw({5, 4, 2, 3}, step, torch::kFloat);
    EXPECT_TRUE(torch::equal(ours->forward(x), theirs->forward(x)));
  }
  EXPECT_TRUE(torch::equal(ours->running_var, theirs->running_var));
  ours->eval();
  theirs->eval();
  const torch::Tensor x = draw({5, 4, 2, 3}, 9, torch::kFloat);
  EXPECT_TRUE(torch::equal(ours->forward(x), theirs->forward(x)));
  run_ranks(2, [&](ProcessGroup group) {
    SyncBatchNorm norm(torch::nn::BatchNormOptions(4), group);
    norm->eval();
    // Not collective: one rank alone does not wait.
    if (group.rank() == 1) {
      EXPECT_EQ(norm->forward(x).sizes(), x.sizes());
    }
  });
}

TEST(SyncBatchNorm, CanDoWithoutWeightsAndWithoutRunningStatistics) {
  run_ranks(2, [](ProcessGroup group) {
    SyncBatchNorm norm(torch::nn::BatchNormOptions(3).affine(false).track_running_stats(false),
                       group);
    EXPECT_TRUE(norm->parameters().empty());
    const torch::Tensor x = (draw({4, 3}, 3) - 100).requires_grad_();  // the same on both ranks
    const torch::Tensor y = norm->forward(x);
    EXPECT_TRUE(torch::allclose(
        y, torch::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false), 1e-12, 1e-12));
    y.square().sum().backward();
    EXPECT_TRUE(x.grad().defined());
    norm->eval();
    EXPECT_TRUE(torch::allclose(norm->forward(x), y, 1e-12, 1e-12));
  });
}

TEST(SyncBatchNorm, RefusesWhatItCannotNormalise) {
  run_ranks(2, [](ProcessGroup group) {
    SyncBatchNorm norm(torch::nn::BatchNormOptions(3), group);
    EXPECT_THAT(error_of([&] { norm->forward(torch::ones({3})); }), HasSubstr("[N, 3, …]"));
    EXPECT_THAT(error_of([&] { norm->forward(torch::ones({2, 4})); }), HasSubstr("[2, 4]"));
    const torch::Tensor single = torch::ones({group.rank(), 3});
    EXPECT_THAT(error_of([&] { norm->forward(single); }), HasSubstr("at least two values"));
    const torch::Tensor x = torch::rand({4, 3}).requires_grad_();
    const torch::Tensor y = norm->forward(x).sum();
    EXPECT_THAT(error_of([&] { y.backward({}, true, true); }), HasSubstr("create_graph"));
  });
}

TEST(SyncBatchNorm, AloneItRefusesOneValuePerChannelAsBatchNormDoes) {
  const torch::Tensor one = torch::ones({1, 3, 1, 1}), two = torch::rand({1, 3, 1, 2});
  const auto check = [&](std::optional<ProcessGroup> group) {
    SyncBatchNorm norm(torch::nn::BatchNormOptions(3), std::move(group));
    EXPECT_THAT(error_of([&] { norm->forward(one); }), HasSubstr("at least two values"));
    EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 0);
    EXPECT_EQ(norm->forward(two).sizes(), two.sizes());
    norm->eval();
    EXPECT_EQ(norm->forward(one).sizes(), one.sizes());
    EXPECT_TRUE(torch::isfinite(norm->running_var).all().item<bool>());
  };
  check(std::nullopt);
  run_ranks(1, [&](ProcessGroup group) { check(std::move(group)); });
}

TEST(SyncBatchNorm, TrainsUnderDdpLikeOneRankOnTheWholeUnevenlySharedBatch) {
  const auto build = [] {
    torch::manual_seed(3);
    torch::nn::Sequential net;
    net->push_back("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 4, 3)));
    net->push_back("norm", torch::nn::BatchNorm2d(4));
    net->push_back("flat", torch::nn::Flatten());
    net->push_back("head", torch::nn::Linear(4 * 4 * 4, 3));
    net->to(torch::kDouble);
    return net;
  };
  const std::vector<int64_t> from{0, 5, 6, 9};
  const auto batch = [](uint64_t step) {
    return std::pair{draw({9, 2, 6, 6}, step) - 100,
                     torch::arange(9).remainder(3) + 0 * static_cast<int64_t>(step)};
  };
  torch::nn::Sequential whole = build();
  torch::optim::SGD whole_sgd(whole->parameters(), 0.1);
  std::vector<torch::nn::Sequential> nets{build(), build(), build()};
  for (uint64_t step = 0; step < 3; ++step) {
    const auto [x, y] = batch(step);
    whole_sgd.zero_grad();
    torch::nn::functional::cross_entropy(whole->forward(x), y).backward();
    whole_sgd.step();
  }
  run_ranks(3, [&](ProcessGroup group) {
    torch::nn::Sequential net = nets[group.rank()];
    parallel::convert_sync_batchnorm(*net, group);
    parallel::DistributedDataParallel ddp(net, group);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    for (uint64_t step = 0; step < 3; ++step) {
      const auto [x, y] = batch(step);
      const int64_t rows = from[group.rank() + 1] - from[group.rank()];
      sgd.zero_grad();
      const torch::Tensor scores = ddp->forward(x.narrow(0, from[group.rank()], rows));
      ddp.weigh(torch::nn::functional::cross_entropy(scores, y.narrow(0, from[group.rank()], rows)),
                rows)
          .backward();
      sgd.step();
    }
    for (const auto& item : whole->named_parameters()) {
      EXPECT_TRUE(torch::allclose(net->named_parameters()[item.key()], item.value(), 1e-12, 1e-12))
          << item.key();
    }
    for (const auto& item : whole->named_buffers()) {
      EXPECT_TRUE(torch::allclose(net->named_buffers()[item.key()], item.value(), 1e-12, 1e-12))
          << item.key();
    }
  });
}

struct OwnImpl : torch::nn::Module {
  OwnImpl() {
    stem = register_module("stem", torch::nn::Sequential());
    stem->push_back(torch::nn::Linear(4, 4));
    stem->push_back(torch::nn::BatchNorm1d(4));
    ready = register_module("ready", SyncBatchNorm(torch::nn::BatchNormOptions(4)));
  }
  torch::Tensor forward(torch::Tensor x) { return ready(stem->forward(x)); }
  torch::nn::Sequential stem{nullptr};
  SyncBatchNorm ready{nullptr};
};
TORCH_MODULE(Own);

TEST(ConvertSyncBatchNorm, ReplacesThoseInSequentialsAndGivesTheOthersTheGroup) {
  run_ranks(2, [](ProcessGroup group) {
    Own net;
    net->stem->eval();
    const auto before = net->named_parameters();
    parallel::convert_sync_batchnorm(*net, group);
    EXPECT_TRUE(net->ready->group().has_value());
    const auto norm = std::dynamic_pointer_cast<parallel::SyncBatchNormImpl>(net->stem->ptr(1));
    ASSERT_TRUE(norm);
    EXPECT_FALSE(norm->is_training());
    const auto after = net->named_parameters();
    ASSERT_EQ(after.keys(), before.keys());
    for (const auto& key : before.keys()) EXPECT_TRUE(after[key].is_same(before[key])) << key;
    net->train();
    const torch::Tensor x = draw({3, 4}, static_cast<uint64_t>(group.rank()), torch::kFloat);
    const torch::Tensor all = group.all_gather(net->forward(x).detach());
    EXPECT_LE(all.mean(torch::IntArrayRef{0, 1}).abs().max().item<double>(), 1e-4);
    EXPECT_GT(all[0].mean(0).abs().max().item<double>(), 1e-3);
  });
}

struct StuckImpl : torch::nn::Module {
  StuckImpl() {
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
    stem = register_module("stem", torch::nn::Sequential(torch::nn::BatchNorm1d(4)));
  }
  torch::Tensor forward(torch::Tensor x) { return norm(x); }
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Sequential stem{nullptr};
};

TEST(ConvertSyncBatchNorm, NamesThoseThatItCannotReplaceAndChangesNothing) {
  run_ranks(1, [](ProcessGroup group) {
    torch::nn::Sequential net;
    net->push_back("block", std::make_shared<StuckImpl>());
    const std::string error = error_of([&] { parallel::convert_sync_batchnorm(*net, group); });
    EXPECT_THAT(error, HasSubstr("convert_sync_batchnorm: block.norm:"));
    EXPECT_THAT(error, HasSubstr("declare it as muster::parallel::SyncBatchNorm"));
    EXPECT_EQ(net->modules().back()->name(), "torch::nn::BatchNorm1dImpl");
    torch::nn::BatchNorm1d alone(3);
    EXPECT_THAT(error_of([&] { parallel::convert_sync_batchnorm(*alone, group); }),
                HasSubstr("the module itself"));
  });
}

}  // namespace
}  // namespace muster
