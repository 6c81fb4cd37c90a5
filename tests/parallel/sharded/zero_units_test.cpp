// Stage 3: weights that come and go unit by unit.
#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/activations/checkpointed.h"
#include "muster/parallel/sharded/zero.h"
#include "muster/testing/run_ranks.h"

#include "tests/parallel/sharded/unit_net.h"
#include "tests/parallel/sharded/zero_nets.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::ReleasableTensor;
using parallel::ShardedDataParallel;
using parallel::ShardUnit;
using parallel::ZeroOptions;
using test::bit_equal;
using test::copies;
using test::difference;
using test::error_of;
using test::kUnitWidth;
using test::rows_of;
using test::sharded_and_alone;
using test::state_of;
using test::UnitNet;
using test::UnitNetImpl;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Tensors = std::vector<torch::Tensor>;

TEST(ZeroUnits, MayRunInAnyOrderAndSeveralTimes) {
  for (const std::vector<size_t>& order : std::vector<std::vector<size_t>>{
           {2, 0, 1}, {0, 1, 0, 2}, {0, 0, 1, 2, 2}, {1, 2, 1, 2, 0}}) {
    const auto [sharded, alone] =
        sharded_and_alone(3, 3, [&](UnitNetImpl& net) { net.order = order; });
    EXPECT_LE(difference(sharded, alone), 1e-12) << order.size();
  }
}

TEST(ZeroUnits, MayBeSomeOfTheLayersOnly) {
  const auto [sharded, alone] =
      sharded_and_alone(2, 3, [](UnitNetImpl&) {}, {.units = {{"layer1"}}});
  EXPECT_LE(difference(sharded, alone), 1e-12);
}

TEST(ZeroUnits, MayBeLeftOutWhereUnusedParametersAreLookedFor) {
  const auto [sharded, alone] = sharded_and_alone(2,
                                                  3,
                                                  [](UnitNetImpl& net) {
                                                    net.order = {0, 2};
                                                  },
                                                  {.find_unused_parameters = true});
  EXPECT_LE(difference(sharded, alone), 1e-12);
}

/// Calls what is inside of its scope as checkpointed() functions.
struct Recomputed final : tensor::UnitCalls {
  Tensors call(std::string_view /*unit*/,
               const tensor::UnitForward& forward,
               const Tensors& inputs) override {
    ++calls;
    return parallel::checkpointed(forward, inputs);
  }
  int calls = 0;
};

TEST(ZeroUnits, MayBeComputedAgainInBackward) {
  UnitNet alone(3);
  alone->forward(rows_of(0, 1)).square().mean().backward();
  std::vector<UnitNet> nets{UnitNet(3), UnitNet(3)};
  run_ranks(2, [&](ProcessGroup group) {
    UnitNet net = nets[group.rank()];
    ShardedDataParallel zero(net, group, {.stage = 3, .units = net->units()});
    Recomputed recomputed;
    const tensor::UnitCallScope scope(recomputed);
    zero->forward(rows_of(group.rank(), 2)).square().mean().backward();
    EXPECT_EQ(recomputed.calls, 3);
    torch::optim::SGD sgd(zero.shard(), 1);
    zero.step(sgd);
    const auto whole = zero.whole_weights();
    for (size_t i = 0; i < alone->parameters().size(); ++i) {
      const torch::Tensor before = alone->parameters()[i];
      EXPECT_LE(((before - before.grad()) - net->parameters()[i]).abs().max().item<double>(),
                1e-12);
    }
  });
}

TEST(ZeroUnits, AreThereAgainForASecondBackward) {
  std::vector<UnitNet> nets{UnitNet(2), UnitNet(2)};
  run_ranks(2, [&](ProcessGroup group) {
    UnitNet net = nets[group.rank()];
    ShardedDataParallel zero(net, group, {.stage = 3, .units = net->units()});
    const torch::Tensor scores = zero->forward(rows_of(group.rank(), 2));
    scores.sum().backward({}, /*retain_graph=*/true);
    const double once = zero.clip_grad_norm(1e9);
    scores.sum().backward();
    EXPECT_NEAR(zero.clip_grad_norm(1e9), 2 * once, 1e-12);
  });
}

TEST(ZeroUnits, OfTwoForwardsMayGoBackInAnyOrder) {
  std::vector<UnitNet> nets{UnitNet(3), UnitNet(3)};
  run_ranks(2, [&](ProcessGroup group) {
    UnitNet net = nets[group.rank()];
    ShardedDataParallel zero(net, group, {.stage = 3, .units = net->units()});
    const auto norm = [&](bool first_first) {
      zero.zero_grad();
      const torch::Tensor a = zero->forward(rows_of(group.rank(), 2)).sum();
      const torch::Tensor b = zero->forward(rows_of(group.rank(), 2) * 2).sum();
      (first_first ? a : b).backward();
      (first_first ? b : a).backward();
      return zero.clip_grad_norm(1e9);
    };
    EXPECT_NEAR(norm(true), norm(false), 1e-12);
  });
}

TEST(ZeroUnits, RunWithoutGradientsBetweenSteps) {
  std::vector<UnitNet> nets{UnitNet(2), UnitNet(2)};
  UnitNet alone(2);
  run_ranks(2, [&](ProcessGroup group) {
    UnitNet net = nets[group.rank()];
    ShardedDataParallel zero(net, group, {.stage = 3, .units = net->units()});
    const auto scores = [&](const torch::Tensor& rows) {
      const c10::InferenceMode inference;
      return zero->forward(rows);
    };
    const torch::Tensor rows = rows_of(0, 1);
    EXPECT_TRUE(scores(rows).equal(alone->forward(rows).detach()));
    zero->forward(rows).sum().backward();
    EXPECT_TRUE(scores(rows).equal(alone->forward(rows).detach()));
  });
}

// What a forward that threw left behind is in nobody's way.
TEST(ZeroUnits, GoOnAfterAForwardThatThrew) {
  std::vector<UnitNet> nets{UnitNet(3), UnitNet(3)};
  run_ranks(2, [&](ProcessGroup group) {
    UnitNet net = nets[group.rank()];
    ShardedDataParallel zero(net, group, {.stage = 3, .units = net->units()});
    torch::optim::SGD sgd(zero.shard(), 0.1);
    const auto step = [&] {
      sgd.zero_grad();
      zero->forward(rows_of(group.rank(), 2)).sum().backward();
      zero.step(sgd);
    };
    step();
    net->order = {0, 1, 7};
    EXPECT_THAT(error_of(step), ::testing::Not(test::kNoError));
    net->order = {};
    step();
  });
}

TEST(ZeroUnits, SayWhatIsWrongWhereWeightsAreNotThere) {
  if (!ReleasableTensor::has_error()) GTEST_SKIP() << "this LibTorch crashes";
  std::vector<UnitNet> nets{UnitNet(2), UnitNet(2)};
  run_ranks(2, [&](ProcessGroup group) {
    UnitNet net = nets[group.rank()];
    ShardedDataParallel zero(net, group, {.stage = 3, .units = net->units()});
    const auto text = AllOf(HasSubstr("weights in shards"), HasSubstr("whole_weights()"));
    EXPECT_THAT(error_of([&] { (void)net->layers[0]->weight.sum(); }), text);
    EXPECT_THAT(error_of([&] { (void)net->forward(rows_of(0, 1)); }), text);
    EXPECT_THAT(error_of([&] {
                  const torch::NoGradGuard no_grad;
                  net->last->bias.zero_();
                }),
                text);
    EXPECT_EQ(net->layers[0]->weight.sizes(), (std::vector<int64_t>{kUnitWidth, kUnitWidth}));
    // A layer that is a unit and is called past call_unit().
    EXPECT_THAT(error_of([&] {
                  (void)zero.run_forward([&] { return net->layers[0]->forward(rows_of(0, 1)); });
                }),
                text);
  });
}

TEST(ZeroUnits, AreNotSeenWhileTheyAreOnTheirWay) {
  if (!ReleasableTensor::has_error()) GTEST_SKIP() << "this LibTorch crashes";
  std::vector<UnitNet> nets{UnitNet(3), UnitNet(3)};
  run_ranks(2, [&](ProcessGroup group) {
    UnitNet net = nets[group.rank()];
    ShardedDataParallel zero(net, group, {.stage = 3, .units = net->units()});
    zero->forward(rows_of(0, 1)).sum().backward();
    const auto peek = [&](const torch::Tensor& x) {
      EXPECT_THAT(error_of([&] { (void)net->layers[1]->weight.sum(); }),
                  HasSubstr("weights in shards"));
      return net->layers[0](x);
    };
    (void)zero.run_forward([&] { return tensor::call_unit("layer0", peek, rows_of(0, 1)); });
  });
}

TEST(ZeroUnits, AreEvaluatedByRanksWithUnlikeNumbersOfBatches) {
  std::vector<UnitNet> nets{UnitNet(3), UnitNet(3), UnitNet(3)};
  UnitNet alone(3);
  const torch::Tensor expected = alone->forward(rows_of(0, 1)).detach();
  run_ranks(3, [&](ProcessGroup group) {
    UnitNet net = nets[group.rank()];
    ShardedDataParallel zero(net, group, {.stage = 3, .units = net->units()});
    torch::optim::SGD sgd(zero.shard(), 0.0);
    for (const bool twice : {true, false}) {
      net->order = twice ? std::vector<size_t>{0, 1, 0, 1, 2} : std::vector<size_t>{};
      zero->forward(rows_of(0, 1)).sum().backward();  // whose order is not that of evaluation
      zero.step(sgd);
      net->order = {};
      const torch::NoGradGuard no_grad;
      for (int batch = 0; batch < 3; ++batch) {
        if (batch > group.rank()) {
          zero.stand_aside();
        } else {
          EXPECT_TRUE(zero.evaluate([&] { return net->forward(rows_of(0, 1)); }).equal(expected));
        }
      }
    }
    net->order = {1, 0, 2};
    const torch::NoGradGuard no_grad;
    EXPECT_THAT(error_of([&] { zero.evaluate([&] { return net->forward(rows_of(0, 1)); }); }),
                HasSubstr("in the order in which they were named"));
  });
}

TEST(ZeroUnits, AreSavedAsTheyWereLoaded) {
  std::vector<UnitNet> nets{UnitNet(2), UnitNet(2)};
  run_ranks(2, [&](ProcessGroup group) {
    UnitNet net = nets[group.rank()];
    ShardedDataParallel zero(net, group, {.stage = 3, .units = net->units()});
    const torch::NoGradGuard no_grad;
    const auto expect_all = [&](double value) {
      for (const auto& [name, weight] : zero.gather_weights())
        EXPECT_TRUE(weight.eq(value).all().item<bool>()) << name << ' ' << value;
    };
    {
      const auto whole = zero.whole_weights();
      for (torch::Tensor& parameter : net->parameters()) parameter.fill_(0.25);
      expect_all(0.25);
    }
    for (torch::Tensor& parameter : net->parameters())
      parameter.set_data(torch::full(parameter.sizes(), 0.5, torch::kDouble));
    expect_all(0.5);
  });
}

TEST(ZeroUnits, TakeWeightsThatAreLoaded) {
  std::vector<UnitNet> nets{UnitNet(2), UnitNet(2)};
  run_ranks(2, [&](ProcessGroup group) {
    UnitNet net = nets[group.rank()];
    ShardedDataParallel zero(net, group, {.stage = 3, .units = net->units()});
    const torch::NoGradGuard no_grad;
    {
      const auto whole = zero.whole_weights();
      for (torch::Tensor& parameter : net->parameters()) parameter.fill_(0.25);
      torch::optim::SGD sgd(zero.shard(), 0.1);
      EXPECT_THAT(error_of([&] { zero.step(sgd); }), HasSubstr("held whole"));
    }
    net->layers[1]->weight.set_data(torch::full({kUnitWidth, kUnitWidth}, 0.5, torch::kDouble));
    (void)zero->forward(rows_of(0, 1));
    const auto whole = zero.whole_weights();
    for (const auto& named : net->named_parameters()) {
      const double value = named.key() == "layer1.weight" ? 0.5 : 0.25;
      EXPECT_TRUE(named.value().eq(value).all().item<bool>()) << named.key();
    }
  });
}

TEST(ZeroUnits, AreGatheredOnRankZeroByName) {
  std::vector<UnitNet> nets{UnitNet(2), UnitNet(2), UnitNet(2)};
  const UnitNet alone(2);
  run_ranks(3, [&](ProcessGroup group) {
    UnitNet net = nets[group.rank()];
    ShardedDataParallel zero(net, group, {.stage = 3, .units = net->units()});
    const auto weights = zero.gather_weights();
    ASSERT_EQ(weights.size(), group.rank() == 0 ? alone->parameters().size() : 0);
    for (const auto& [name, weight] : weights)
      EXPECT_TRUE(weight.equal(alone->named_parameters()[name])) << name;
  });
}

TEST(ZeroUnits, AreRefusedWhereTheyMakeNoSense) {
  const std::vector<std::pair<ZeroOptions, const char*>> cases{
      {{.stage = 3}, "stage 3 with 0"},
      {{.stage = 2, .units = {{"layer0"}}}, "stage 2 with 1"},
      {{.stage = 4}, "(got 4)"},
      {{.stage = 3, .units = {{"layer7"}}}, "unit \"layer7\""},
      {{.stage = 3, .units = {{"layer0"}, {"layer0"}}}, "twice"},
      {{.stage = 3, .units = {{""}}}, "units have names"},
      {{.stage = 3, .units = {{"layer0"}, {"layer0.weight"}}}, "no unit lies in another one"},
      {{.stage = 3, .units = {{"x", {torch::ones({2})}}}}, "the module has not"}};
  for (const auto& [options, text] : cases) {
    run_ranks(1, [&, text = text, options = options](ProcessGroup group) {
      UnitNet net(2);
      EXPECT_THAT(error_of([&] { ShardedDataParallel(net, group, options); }), HasSubstr(text));
    });
  }
}

TEST(ZeroUnits, DoNotCallEachOther) {
  std::vector<UnitNet> nets{UnitNet(2), UnitNet(2)};
  run_ranks(2, [&](ProcessGroup group) {
    UnitNet net = nets[group.rank()];
    ShardedDataParallel zero(net, group, {.stage = 3, .units = net->units()});
    const auto outer = [&](const torch::Tensor& x) { return net->layer(1, x); };
    EXPECT_THAT(
        error_of([&] {
          (void)zero.run_forward([&] { return tensor::call_unit("layer0", outer, rows_of(0, 1)); });
        }),
        HasSubstr("\"layer0\" calls it"));
  });
}

}  // namespace
}  // namespace muster
