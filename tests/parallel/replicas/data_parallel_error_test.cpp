// DataParallel when something is wrong: refusals, failures of a replica, ends.
#include <atomic>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/parallel/replicas/data_parallel.h"

#include "tests/parallel/replicas/line.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using test::cpus;
using test::Linear;
using test::make_line;
using test::square;

using parallel::DataParallel;
using parallel::SharePolicy;
using test::error_of;
using test::refusal_of;
using ::testing::HasSubstr;
TEST(DataParallelErrors, BatchesThatCannotBeDealtOutAreRefused) {
  DataParallel dp(&make_line, cpus(2));
  EXPECT_THAT(refusal_of([&] {
                dp.backward(torch::randn({0, 4}), &square);
              }),
              HasSubstr("empty batch"));
  EXPECT_THAT(refusal_of([&] { dp.backward(torch::tensor(1.0), &square); }),
              HasSubstr("without rows"));
  EXPECT_THAT(refusal_of([&] {
                dp.backward(torch::randn({3, 4}),
                            torch::randn({2, 4}),
                            [](Linear& net, const torch::Tensor& x, const torch::Tensor&) {
                              return square(net, x);
                            });
              }),
              HasSubstr("[3, 4] and [2, 4]"));
  const torch::NoGradGuard no_grad;
  EXPECT_THAT(refusal_of([&] {
                dp.backward(torch::randn({3, 4}), &square);
              }),
              HasSubstr("grad mode is on"));
}

TEST(DataParallelErrors, DevicesAndWeightsThatCannotBeAreRefused) {
  const auto refused = [](std::vector<at::Device> devices, std::vector<double> weights) {
    return refusal_of([&] {
      DataParallel dp(&make_line, devices, {.shares = SharePolicy::kFixed, .weights = weights});
    });
  };
  EXPECT_THAT(refused({}, {}), HasSubstr("one replica at least"));
  EXPECT_THAT(refused({at::Device(at::kCUDA, 77)}, {1}), HasSubstr("device cuda:77"));
  EXPECT_THAT(refused({at::kCPU, at::Device(at::kCUDA, 1), at::Device(at::kCUDA, 1)}, {1, 1, 1}),
              HasSubstr("two replicas on cuda:1: a device has one replica"));
  EXPECT_THAT(refused(cpus(2), {1}), HasSubstr("one number per device (2)"));
  EXPECT_THAT(refused(cpus(2), {0, 0}), HasSubstr("got 0, 0"));
  EXPECT_THAT(refused(cpus(2), {1, -1}), HasSubstr("got 1, -1"));
  EXPECT_THAT(refused(cpus(2), {1, std::nan("")}), HasSubstr("got 1, nan"));
  EXPECT_THAT(refused(cpus(2), {1e308, 1e308}), HasSubstr("their sum above 0 and finite"));
  EXPECT_THAT(refusal_of([] {
                DataParallel dp(&make_line, cpus(2), {.weights = {3, 1}});
              }),
              HasSubstr("weights belong to SharePolicy::kFixed"));
}

TEST(DataParallelErrors, ReplicasOfDifferentShapeAreRefusedByName) {
  EXPECT_THAT(
      error_of([] {
        DataParallel dp([](at::Device, int index) { return Linear(4, 2 + index); }, cpus(2));
      }),
      HasSubstr(
          "rank 0 has parameter weight float32[2, 4]; rank 1 has parameter weight float32[3, 4]"));
}

TEST(DataParallelErrors, ALossThatIsNoNumberWithAGraphIsRefused) {
  DataParallel dp(&make_line, cpus(2));
  const torch::Tensor x = torch::randn({6, 4});
  EXPECT_THAT(refusal_of([&] {
                dp.backward(x, [](Linear& net, const torch::Tensor& x) { return net->forward(x); });
              }),
              HasSubstr("(got [3, 2])"));
  EXPECT_THAT(
      refusal_of([&] { dp.backward(x, [](Linear&, const torch::Tensor& x) { return x.mean(); }); }),
      HasSubstr("without graph"));
}

TEST(DataParallelErrors, NamesParametersThatGetNoGradientAndGoesOn) {
  struct Two : torch::nn::Module {
    Two() {
      used = register_module("used", Linear(4, 2));
      idle = register_module("idle", Linear(4, 2));
    }
    Linear used{nullptr}, idle{nullptr};
  };
  const auto make = [] { return std::make_shared<Two>(); };
  const auto loss = [](auto& net, const torch::Tensor& x) { return square(net->used, x); };
  const torch::Tensor x = torch::randn({6, 4});
  DataParallel dp(make, cpus(2));
  dp.backward(x, loss);
  EXPECT_THAT(error_of([&] { dp.backward(x, loss); }), HasSubstr("idle.weight, idle.bias"));
  DataParallel searching(make, cpus(2), {.ddp = {.find_unused_parameters = true}});
  for (int step = 0; step < 3; ++step) searching.backward(x, loss);
  EXPECT_FALSE(searching.module(1)->idle->weight.grad().defined());
}

struct Broken {
  int code;
};

TEST(DataParallelErrors, AnErrorNamesReplicaAndDeviceKeepsItsTypeAndTheObjectGoesOn) {
  DataParallel dp(&make_line, cpus(3));
  Linear one = make_line();
  const torch::Tensor x = torch::randn({9, 4});
  std::atomic<bool> fails = true;
  const auto loss = [&](Linear& net, const torch::Tensor& shard) -> torch::Tensor {
    if (fails && net.ptr() == dp.module(1).ptr()) throw std::out_of_range("no such row");
    return square(net, shard);
  };
  for (int turn = 0; turn < 3; ++turn) {
    bool nested = false;
    try {
      dp.backward(x, loss);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "replica 1 (cpu): no such row");
      try {
        std::rethrow_if_nested(error);
      } catch (const std::out_of_range&) {
        nested = true;
      }
    }
    EXPECT_TRUE(nested);
  }
  EXPECT_FALSE(dp.module(0)->weight.grad().defined()) << "gradients of a failed step stay";
  fails = false;
  square(one, x).backward();
  dp.backward(x, loss);
  for (int replica = 0; replica < 3; ++replica)
    EXPECT_TRUE(torch::allclose(dp.module(replica)->weight.grad(), one->weight.grad()));
}

TEST(DataParallelErrors, ErrorsInBackwardAndOfAnyTypeReleaseTheOthers) {
  DataParallel dp(&make_line, cpus(2));
  const torch::Tensor x = torch::randn({9, 4});
  const auto in_backward = [&](Linear& net, const torch::Tensor& shard) {
    torch::Tensor loss = square(net, shard);
    if (net.ptr() == dp.module(1).ptr())
      loss.register_hook([](const torch::Tensor&) { throw std::runtime_error("bad gradient"); });
    return loss;
  };
  EXPECT_THAT(error_of([&] { dp.backward(x, in_backward); }),
              HasSubstr("replica 1 (cpu): bad gradient"));
  const auto strange = [](Linear&, const torch::Tensor&) -> torch::Tensor { throw Broken{7}; };
  EXPECT_THAT(error_of([&] { dp.backward(x, strange); }),
              HasSubstr("an exception of unknown type"));
  EXPECT_EQ(error_of([&] { dp.backward(x, &square); }), test::kNoError);
  {
    const torch::InferenceMode inference;
    EXPECT_THAT(error_of([&] { dp.forward(torch::randn({9, 5})); }), HasSubstr("(cpu): "));
  }
  EXPECT_TRUE(dp.module(0)->weight.grad().defined()) << "a failed inference takes no gradients";
  EXPECT_EQ(error_of([&] { dp.forward(x); }), test::kNoError);
  for (int step = 0; step < 3; ++step)
    EXPECT_EQ(error_of([&] { dp.backward(x, &square); }), test::kNoError);
}

TEST(DataParallelErrors, AnOptimizerThatThrowsLeavesAnObjectThatSaysSo) {
  struct Fails : torch::optim::SGD {
    Fails(std::vector<torch::Tensor> parameters, bool now)
        : torch::optim::SGD(std::move(parameters), 0.1), fails(now) {}
    torch::Tensor step(LossClosure closure = nullptr) override {
      if (fails) throw std::runtime_error("disk is full");
      return torch::optim::SGD::step(closure);
    }
    bool fails;
  };
  DataParallel dp(&make_line, cpus(2));
  auto optimizer = dp.optimizer([&](Linear& net) {
    return std::make_unique<Fails>(net->parameters(), net.ptr() == dp.module(1).ptr());
  });
  dp.backward(torch::ones({4, 4}), &square);
  EXPECT_THAT(error_of([&] { optimizer.step(); }), HasSubstr("replica 1 (cpu): disk is full"));
  EXPECT_THAT(refusal_of([&] {
                dp.backward(torch::ones({4, 4}), &square);
              }),
              HasSubstr("disk is full"));
  EXPECT_THAT(refusal_of([&] { optimizer.step(); }), HasSubstr("build it anew"));
}

TEST(DataParallelErrors, AReplicaThatCannotBeConnectedAgainLeavesAnObjectThatSaysSo) {
  for (const int replica : {0, 1}) {
    DataParallel dp(&make_line, cpus(2));
    const torch::Tensor x = torch::ones({4, 4});
    dp.backward(x, &square);
    {
      const auto pause = dp.no_sync();
      dp.module(replica)->weight.mutable_grad() = torch::ones({7});  // fits into no bucket
      EXPECT_NE(error_of([&] { dp.forward(torch::ones({4, 5})); }), test::kNoError);
    }
    const auto pause = dp.no_sync();
    EXPECT_THAT(refusal_of([&] { dp.backward(x, &square); }), HasSubstr("build it anew"));
    dp.zero_grad();
  }
}

TEST(DataParallelErrors, ACallFromInsideAReplicaIsRefusedInsteadOfHanging) {
  DataParallel dp(&make_line, cpus(2));
  EXPECT_THAT(refusal_of([&] {
                dp.backward(torch::ones({4, 4}),
                            [&](Linear&, const torch::Tensor& x) { return dp.forward(x).sum(); });
              }),
              HasSubstr("from inside a replica"));
}

TEST(DataParallelErrors, MayEndAtAnyTimeAndTheModuleTrainsOnAlone) {
  Linear kept{nullptr};
  {
    DataParallel dp(&make_line, cpus(2));
    kept = dp.module(1);
    auto optimizer =
        dp.optimizer([](Linear& net) { return torch::optim::SGD(net->parameters(), 0.1); });
    dp.backward(torch::ones({4, 4}), &square);
    EXPECT_NE(error_of([&] {
                dp.backward(torch::ones({4, 4}),
                            [](Linear&, const torch::Tensor&) -> torch::Tensor {
                              throw std::runtime_error("end");
                            });
              }),
              test::kNoError);
  }
  { DataParallel idle(&make_line, cpus(4)); }
  kept->zero_grad();
  square(kept, torch::ones({4, 4})).backward();
  EXPECT_TRUE(kept->weight.grad().defined());
}

}  // namespace
}  // namespace muster
