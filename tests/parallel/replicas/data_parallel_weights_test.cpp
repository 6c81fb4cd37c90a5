// DataParallel: weights that come from files, gradients of other kinds.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/replicas/data_parallel.h"

#include "tests/parallel/replicas/line.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using parallel::DataParallel;
using test::cpus;
using test::Linear;
using test::make_line;
using test::square;
using ::testing::HasSubstr;

TEST(DataParallelWeights, AreLoadedIntoReplicaZeroAndBroadcast) {
  Linear saved(4, 2);
  {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : saved->parameters()) parameter.fill_(0.5);
  }
  std::ostringstream text;
  torch::save(saved, text);
  DataParallel dp(&make_line, cpus(3));
  auto optimizer =
      dp.optimizer([](Linear& net) { return torch::optim::SGD(net->parameters(), 0.1); });
  torch::optim::SGD alone(saved->parameters(), 0.1);
  const torch::Tensor x = torch::randn({9, 4});
  for (int turn = 0; turn < 2; ++turn) {  // with gradients there, too
    dp.backward(x, &square);
    std::istringstream file(text.str());
    torch::load(dp.module(), file);
    dp.broadcast_module();
  }
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    dp.backward(x, &square);
    optimizer.step();
    alone.zero_grad();
    square(saved, x).backward();
    alone.step();
  }
  for (int replica = 0; replica < 3; ++replica) {
    EXPECT_TRUE(torch::allclose(dp.module(replica)->weight, saved->weight, 0, 1e-6)) << replica;
    EXPECT_TRUE(torch::allclose(dp.module(replica)->bias, saved->bias, 0, 1e-6)) << replica;
  }
}

TEST(DataParallelWeights, OfAnotherDtypeAreRefusedWithBoth) {
  DataParallel dp(&make_line, cpus(2));
  for (int replica = 0; replica < 2; ++replica) dp.module(replica)->to(torch::kDouble);
  const std::string error = test::error_of([&] {
    dp.backward(torch::randn({4, 4}, torch::kDouble), &square);
  });
  EXPECT_THAT(error, HasSubstr("float32[2, 4] on cpu when it was wrapped"));
  EXPECT_THAT(error, HasSubstr("got float64[2, 4] on cpu now"));
}

torch::nn::EmbeddingBag make_bag(bool sparse) {
  torch::manual_seed(4);
  return torch::nn::EmbeddingBag(
      torch::nn::EmbeddingBagOptions(7, 4).sparse(sparse).mode(torch::kSum));
}

TEST(DataParallelWeights, OfSparseLayersGetSparseGradients) {
  const auto loss = [](auto& net, const torch::Tensor& index) {
    return net->forward(index).pow(2).mean();
  };
  torch::nn::EmbeddingBag alone = make_bag(false);
  torch::optim::SGD theirs(alone->parameters(), 0.1);
  DataParallel dp([] { return make_bag(true); }, cpus(2));
  auto ours = dp.optimizer([](auto& net) { return torch::optim::SGD(net->parameters(), 0.1); });
  for (int step = 0; step < 3; ++step) {
    const torch::Tensor index = torch::randint(0, 7, {5, 3}, torch::kLong);
    ours.zero_grad();
    dp.backward(index, loss);
    EXPECT_TRUE(dp.module(1)->weight.grad().is_sparse());
    ours.step();
    theirs.zero_grad();
    loss(alone, index).backward();
    theirs.step();
  }
  for (int replica = 0; replica < 2; ++replica)
    EXPECT_TRUE(torch::allclose(dp.module(replica)->weight, alone->weight, 0, 1e-6)) << replica;
}

TEST(DataParallelWeights, MayBeComplex) {
  struct LineImpl : torch::nn::Module {
    LineImpl() {
      torch::manual_seed(6);
      w = register_parameter("w", torch::randn({300, 4}, torch::kComplexFloat));
      a = register_parameter("a", torch::randn({300, 300}));  // 360 kB: it travels directly
    }
    torch::Tensor forward(const torch::Tensor& x) {
      const torch::Tensor h = torch::matmul(x.to(torch::kComplexFloat), w.t());
      return torch::matmul(h.abs().square(), a);
    }
    torch::Tensor w, a;
  };
  const auto loss = [](auto& net, const torch::Tensor& x) { return net->forward(x).pow(2).mean(); };
  const auto make = [] { return std::make_shared<LineImpl>(); };
  DataParallel dp(make, cpus(2));
  auto alone = make();
  const torch::Tensor x = torch::randn({6, 4});
  dp.backward(x, loss);
  loss(alone, x).backward();
  for (int replica = 0; replica < 2; ++replica) {
    const torch::Tensor got = dp.module(replica)->w.grad();
    EXPECT_LE((got - alone->w.grad()).abs().max().item<double>(),
              1e-4 * alone->w.grad().abs().max().item<double>())
        << replica;
  }
}

}  // namespace
}  // namespace muster
