// Batch norms of modules that know nothing of ranks, against those of the whole batch.
#include "muster/parallel/batch_norm/batch_norms_over_ranks.h"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/batch_norm/sync_batch_norm.h"
#include "muster/parallel/ddp/ddp.h"
#include "muster/tensor/batch_norm.h"
#include "muster/testing/run_ranks.h"

#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::BatchNormsOverRanks;

/// Calls its norms through typed members, as torchvision's models in C++ do.
struct TypedImpl : torch::nn::Module {
  TypedImpl() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 4, 3)));
    norm2d = register_module("norm2d", torch::nn::BatchNorm2d(4));
    fc = register_module("fc", torch::nn::Linear(64, 5));
    norm1d = register_module(
        "norm1d", torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(5).momentum(std::nullopt)));
    head = register_module("head", torch::nn::Linear(5, 3));
    to(torch::kDouble);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return head(norm1d(fc(torch::relu(norm2d(conv(x))).flatten(1))));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm2d{nullptr};
  torch::nn::Linear fc{nullptr}, head{nullptr};
  torch::nn::BatchNorm1d norm1d{nullptr};
};
TORCH_MODULE(Typed);

Typed typed_net() {
  torch::manual_seed(3);
  return Typed();
}

struct Labelled {
  torch::Tensor x, y;
};

Labelled labelled(int64_t rows, uint64_t seed) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(seed);
  return {torch::rand({rows, 2, 6, 6}, generator, torch::kDouble) * 4 - 1,
          torch::arange(rows).remainder(3)};
}

torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& y) {
  return torch::nn::functional::cross_entropy(scores, y);
}

void expect_near(const torch::nn::Module& have, const torch::nn::Module& want) {
  for (const auto& item : want.named_parameters()) {
    const torch::Tensor own = have.named_parameters()[item.key()];
    EXPECT_TRUE(torch::allclose(own, item.value(), 1e-11, 1e-12)) << item.key();
  }
  for (const auto& item : want.named_buffers()) {
    const torch::Tensor own = have.named_buffers()[item.key()];
    EXPECT_TRUE(torch::allclose(own, item.value(), 1e-11, 1e-12)) << item.key();
  }
}

/// Three steps on the whole batch, and on shares of it.
void expect_trains_as_whole(const std::vector<int64_t>& from) {
  const int64_t all = from.back();
  Typed whole = typed_net();
  torch::optim::SGD whole_sgd(whole->parameters(), 0.1);
  for (uint64_t step = 0; step < 3; ++step) {
    const auto [x, y] = labelled(all, step);
    whole_sgd.zero_grad();
    loss_of(whole->forward(x), y).backward();
    whole_sgd.step();
  }
  std::vector<Typed> nets;
  for (size_t rank = 0; rank + 1 < from.size(); ++rank) nets.push_back(typed_net());
  run_ranks(static_cast<int>(nets.size()), [&](ProcessGroup group) {
    const auto rank = static_cast<size_t>(group.rank());
    const int64_t rows = from[rank + 1] - from[rank];
    parallel::DistributedDataParallel ddp(nets[rank], group);
    torch::optim::SGD sgd(nets[rank]->parameters(), 0.1);
    for (uint64_t step = 0; step < 3; ++step) {
      const auto [x, y] = labelled(all, step);
      // A rank without a sample takes others, which count for nothing.
      const bool has_own = rows > 0;
      const Labelled own =
          has_own ? Labelled{x.narrow(0, from[rank], rows), y.narrow(0, from[rank], rows)}
                  : labelled(2, 77);
      sgd.zero_grad();
      const torch::Tensor loss = [&] {
        const BatchNormsOverRanks norms(&group, has_own);
        return loss_of(ddp->forward(own.x), own.y);
      }();
      ddp.weigh(loss, rows, all).backward();
      sgd.step();
    }
    expect_near(*nets[rank], *whole);
  });
}

TEST(BatchNormsOverRanks, TrainTypedMembersAsOneRankOnTheWholeBatch) {
  expect_trains_as_whole({0, 4, 8});
  expect_trains_as_whole({0, 5, 7, 10});
}

TEST(BatchNormsOverRanks, AStandInCountsForNothing) {
  expect_trains_as_whole({0, 4, 4});
  expect_trains_as_whole({0, 3, 5, 5});
}

/// What a step of one norm gives.
struct OneValue {
  torch::Tensor out, gradient, mean, variance;
};

template <class Norm, class Forward>
OneValue one_value(Norm norm, const torch::Tensor& x, const Forward& forward) {
  norm->to(torch::kDouble);
  const torch::Tensor input = x.clone().requires_grad_();
  const torch::Tensor out = forward(norm, input);
  (out * out * x).sum().backward();
  return {out.detach(), input.grad(), norm->running_mean, norm->running_var};
}

void expect_same(const OneValue& have, const OneValue& want, int64_t row) {
  EXPECT_TRUE(torch::allclose(have.out, want.out.narrow(0, row, 1), 1e-12, 1e-12));
  EXPECT_TRUE(torch::allclose(have.gradient, want.gradient.narrow(0, row, 1), 1e-10, 1e-10));
  EXPECT_TRUE(torch::allclose(have.mean, want.mean, 1e-12, 1e-12));
  EXPECT_TRUE(torch::allclose(have.variance, want.variance, 1e-12, 1e-12));
}

TEST(BatchNormsOverRanks, OneValuePerChannelOfARankIsEnoughWhereAllHaveTwo) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(5);
  const torch::Tensor x = torch::rand({2, 4, 1, 1}, generator, torch::kDouble) + 1;
  const auto ours = [](torch::nn::BatchNorm2d& norm, const torch::Tensor& input) {
    return tensor::normalize(*norm, input);
  };
  const auto its_own = [](auto& norm, const torch::Tensor& input) { return norm->forward(input); };
  for (const auto momentum : {std::optional(0.1), std::optional<double>()}) {
    const auto options = torch::nn::BatchNorm2dOptions(4).momentum(momentum);
    const OneValue whole = one_value(torch::nn::BatchNorm2d(options), x, its_own);
    run_ranks(2, [&](ProcessGroup group) {
      const BatchNormsOverRanks norms(&group);
      const torch::Tensor own = x.narrow(0, group.rank(), 1);
      expect_same(one_value(torch::nn::BatchNorm2d(options), own, ours), whole, group.rank());
      expect_same(one_value(parallel::SyncBatchNorm(options), own, its_own), whole, group.rank());
    });
  }
}

TEST(BatchNormsOverRanks, OneValueOfAllRanksTogetherIsRefused) {
  run_ranks(2, [](ProcessGroup group) {
    torch::nn::BatchNorm2d norm(4);
    // The other rank has no sample left, and takes part with others.
    const bool counts = group.rank() == 0;
    const BatchNormsOverRanks norms(&group, counts);
    EXPECT_THAT(test::error_of([&] {
                  tensor::normalize(*norm, torch::ones({counts ? 1 : 2, 4, 1, 1}));
                }),
                ::testing::HasSubstr("at least two values over all ranks (got 1)"));
  });
  run_ranks(1, [](ProcessGroup group) {
    torch::nn::BatchNorm2d norm(4);
    const BatchNormsOverRanks norms(&group);
    EXPECT_THROW(tensor::normalize(*norm, torch::ones({1, 4, 1, 1})), c10::Error);
  });
}

TEST(BatchNormsOverRanks, LeaveEvaluationInstanceNormsAndOtherThreadsAlone) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(4);
  const torch::Tensor x = torch::rand({6, 4, 3, 3}, generator);
  torch::nn::BatchNorm2d norm(4), plain(4);
  torch::nn::InstanceNorm2d instance(4);
  const torch::Tensor trained = plain(x), by_instance = instance(x);
  plain->eval();
  const torch::Tensor evaluated = plain(x);
  run_ranks(2, [&](ProcessGroup group) {
    if (group.rank() == 1) return;  // nothing here is collective: this rank does not wait
    {
      const BatchNormsOverRanks norms(&group);
      EXPECT_TRUE(torch::equal(instance(x), by_instance));
      EXPECT_TRUE(torch::equal(plain(x), evaluated));
      const BatchNormsOverRanks none(nullptr);
      EXPECT_TRUE(torch::equal(norm(x), trained));
    }
    torch::nn::BatchNorm2d fresh(4);
    EXPECT_TRUE(torch::equal(fresh(x), trained));
  });
}

}  // namespace
}  // namespace muster
