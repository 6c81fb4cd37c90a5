// Stage 3: weights that come and go unit by unit.
#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/activations/checkpointed.h"
#include "muster/parallel/sharded/zero.h"
#include "muster/testing/run_ranks.h"

#include "tests/parallel/sharded/zero_nets.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::ShardedDataParallel;
using parallel::ShardUnit;
using parallel::ZeroOptions;
using test::bit_equal;
using test::copies;
using test::difference;
using test::error_of;
using test::state_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Tensors = std::vector<torch::Tensor>;

constexpr int64_t kUnitWidth = 6;

/// Layers as units between two that are none; what runs, and how, is the test's.
struct UnitNetImpl : torch::nn::Module {
  explicit UnitNetImpl(int64_t count) {
    torch::manual_seed(11);
    first = register_module("first", torch::nn::Linear(kUnitWidth, kUnitWidth));
    for (int64_t i = 0; i < count; ++i) {
      layers.push_back(
          register_module("layer" + std::to_string(i), torch::nn::Linear(kUnitWidth, kUnitWidth)));
    }
    last = register_module("last", torch::nn::Linear(kUnitWidth, 2));
    to(torch::kDouble);
  }

  torch::Tensor layer(size_t i, const torch::Tensor& x) {
    return torch::tanh(tensor::call_unit("layer" + std::to_string(i), layers.at(i), x));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor h = first(x);
    for (const size_t i : order.empty() ? in_order() : order) h = layer(i, h);
    return last(h);
  }
  std::vector<size_t> in_order() const {
    std::vector<size_t> all;
    for (size_t i = 0; i < layers.size(); ++i) all.push_back(i);
    return all;
  }
  std::vector<ShardUnit> units() const {
    std::vector<ShardUnit> all;
    for (size_t i = 0; i < layers.size(); ++i) all.push_back({"layer" + std::to_string(i)});
    return all;
  }

  torch::nn::Linear first{nullptr}, last{nullptr};
  std::vector<torch::nn::Linear> layers;
  std::vector<size_t> order;  ///< of calls, if not each once
};
TORCH_MODULE(UnitNet);

torch::Tensor rows_of(int rank, int world) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(uint64_t{5});
  return torch::randn({12, kUnitWidth}, generator, torch::kDouble)
      .narrow(0, rank * 12 / world, 12 / world);
}

/// The weights after `train(net, zero-or-null, rows)` on each of so many ranks, or on one without
/// shards.
template <class Change>
std::pair<Tensors, Tensors> sharded_and_alone(int world,
                                              int64_t layers,
                                              const Change& change,
                                              ZeroOptions options = {}) {
  UnitNet alone(layers);
  change(*alone);
  torch::optim::SGD sgd(test::trained_of(*alone), 0.1);
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    alone->forward(rows_of(0, 1)).square().mean().backward();
    sgd.step();
  }
  Tensors state;
  run_ranks(world, [&](ProcessGroup group) {
    static std::mutex draws;
    UnitNet net{nullptr};
    {
      const std::lock_guard lock(draws);
      net = UnitNet(layers);
    }
    change(*net);
    ZeroOptions mine = options;
    mine.stage = 3;
    if (mine.units.empty()) mine.units = net->units();
    ShardedDataParallel zero(net, group, mine);
    torch::optim::SGD sgd(zero.shard(), 0.1);
    for (int step = 0; step < 3; ++step) {
      sgd.zero_grad();
      zero->forward(rows_of(group.rank(), world)).square().mean().backward();
      zero.step(sgd);
    }
    const auto whole = zero.whole_weights();
    if (group.rank() == 0) state = copies(state_of(*net));
  });
  return {state, state_of(*alone)};
}

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

TEST(ZeroUnits, MayHaveFrozenParameters) {
  const auto freeze = [](UnitNetImpl& net) {
    net.layers[1]->weight.set_requires_grad(false);
    net.layers[2]->bias.set_requires_grad(false);
    net.first->weight.set_requires_grad(false);
  };
  const auto [sharded, alone] = sharded_and_alone(2, 3, freeze);
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

/// What a test runs between the units of a net, on one device and with shards alike: the norm of all
/// gradients of two backwards.
using UnitsPass = std::function<torch::Tensor(UnitNet&, const torch::Tensor&)>;

void expect_same_norm(const UnitsPass& pass) {
  UnitNet alone(3);
  double expected = 0;
  for (int i = 0; i < 2; ++i) {
    alone->zero_grad();
    pass(alone, rows_of(0, 1)).backward();
    double squares = 0;
    for (const torch::Tensor& parameter : alone->parameters()) {
      if (parameter.grad().defined()) squares += parameter.grad().square().sum().item<double>();
    }
    expected = std::sqrt(squares);
  }
  for (const char* backend : {"thread", "gloo"}) {
    std::vector<UnitNet> nets{UnitNet(3), UnitNet(3)};
    run_ranks(
        2,
        [&](ProcessGroup group) {
          UnitNet net = nets[group.rank()];
          ShardedDataParallel zero(
              net, group, {.stage = 3, .find_unused_parameters = true, .units = net->units()});
          for (int i = 0; i < 2; ++i) {
            zero.zero_grad();
            zero.run_forward([&] { return pass(net, rows_of(0, 1)); }).backward();
            EXPECT_NEAR(zero.clip_grad_norm(1e9), expected, 1e-10) << backend << i;
          }
        },
        {.backend = backend});
  }
}

torch::Tensor unit(UnitNet& net, size_t i, const torch::Tensor& x) {
  return tensor::call_unit("layer" + std::to_string(i), net->layers[i], x);
}

// linear() of three dimensions ends in a view.
TEST(ZeroUnits, MayHaveTheirOutputsChangedInPlace) {
  expect_same_norm([](UnitNet& net, const torch::Tensor& rows) {
    torch::Tensor x = rows.view({2, 6, kUnitWidth});
    for (const size_t i : {0, 1, 2}) x = unit(net, i, x).relu_();
    return x.sum();
  });
  // One whose own operations keep the output: refused as it is without shards.
  std::vector<UnitNet> nets{UnitNet(1), UnitNet(1)};
  run_ranks(2, [&](ProcessGroup group) {
    UnitNet net = nets[group.rank()];
    ShardedDataParallel zero(net, group, {.stage = 3, .units = net->units()});
    const auto tanh_of = [&](const torch::Tensor& x) { return torch::tanh(net->layers[0](x)); };
    const torch::Tensor loss = zero.run_forward(
        [&] { return tensor::call_unit("layer0", tanh_of, rows_of(0, 1)).mul_(2).sum(); });
    EXPECT_THAT(error_of([&] { loss.backward(); }), HasSubstr("inplace operation"));
  });
}

TEST(ZeroUnits, MayPassTheirInputsOn) {
  expect_same_norm([](UnitNet& net, const torch::Tensor& rows) {
    const auto same = [](const torch::Tensor& x) { return x; };
    const torch::Tensor x = unit(net, 0, rows);
    const torch::Tensor y = tensor::call_unit("layer1", same, x);
    return unit(net, 2, torch::tanh(y)).sum();
  });
  expect_same_norm([](UnitNet& net, const torch::Tensor& rows) {
    const auto both = [&](const Tensors& in) { return Tensors{net->layers[1](in[0]), in[0]}; };
    const Tensors two = tensor::call_unit("layer1", both, Tensors{unit(net, 0, rows)});
    return unit(net, 2, two[0] * two[1]).sum();
  });
}

// Ranks that reach unlike parameters of the same units: transfers of weights and of gradients take
// turns all the same.
TEST(ZeroUnits, MayBeReachedInUnlikePartsOnTheRanks) {
  UnitNet alone(4);
  const auto pass = [](UnitNet& net, int rank, const torch::Tensor& rows) {
    torch::Tensor x = net->first(rows);
    for (size_t i = 0; i < 4; ++i) {
      const bool without_bias = static_cast<int>(i) == rank + 1;
      const auto layer = [&net, i, without_bias](const torch::Tensor& in) {
        return without_bias ? torch::linear(in, net->layers[i]->weight) : net->layers[i](in);
      };
      x = torch::tanh(tensor::call_unit("layer" + std::to_string(i), layer, x));
    }
    return rank == 0 ? net->last(x).sum() : x.sum();
  };
  double squares = 0;
  for (int rank = 0; rank < 3; ++rank) (pass(alone, rank, rows_of(rank, 3)) / 3).backward();
  for (const torch::Tensor& parameter : alone->parameters())
    squares += parameter.grad().square().sum().item<double>();
  for (const char* backend : {"thread", "shm", "gloo"}) {
    std::vector<UnitNet> nets{UnitNet(4), UnitNet(4), UnitNet(4)};
    run_ranks(
        3,
        [&](ProcessGroup group) {
          UnitNet net = nets[group.rank()];
          ShardedDataParallel zero(
              net, group, {.stage = 3, .find_unused_parameters = true, .units = net->units()});
          for (int i = 0; i < 3; ++i) {
            zero.zero_grad();
            zero.run_forward([&] { return pass(net, group.rank(), rows_of(group.rank(), 3)); })
                .backward();
            EXPECT_NEAR(zero.clip_grad_norm(1e9), std::sqrt(squares), 1e-10) << backend << i;
          }
        },
        {.backend = backend});
  }
}

TEST(ZeroUnits, AreNotSeenWhileTheyAreOnTheirWay) {
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
