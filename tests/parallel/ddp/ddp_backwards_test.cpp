// Which backward averages gradients: see Note [Which backward is averaged]. What PyTorch's DDP
// averages is averaged; what it leaves to each rank silently is refused.
#include <array>
#include <barrier>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/parallel/graphs.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): its helpers are what is written here
using ::testing::HasSubstr;

/// Everything in buckets; large ones directly; over gloo.
struct Way {
  std::string backend;
  DdpOptions options;
};

std::vector<Way> ways() {
  constexpr int64_t kNone = int64_t{1} << 40;
  return {{"thread", {.direct_bytes = kNone}},
          {"thread", {.gradient_as_bucket_view = true, .direct_bytes = kNone}},
          {"thread", {.direct_bytes = 0}},
          {"shm", {.direct_bytes = 100}},
          {"gloo", {}}};
}

/// Two ranks with their net, and the same net for the whole batch.
void on_two_ranks(const Way& way,
                  const std::function<void(DistributedDataParallel<Graph>& ddp,
                                           const Graph& net,
                                           const Graph& whole,
                                           const ProcessGroup& group)>& body) {
  SCOPED_TRACE(way.backend);
  std::barrier<> all(2);
  run_three_layers(
      2,
      [&](const ProcessGroup& group, const Graph& net, const Graph& whole) {
        const muster::testing::LeaveTogether last{all};
        DistributedDataParallel<Graph> ddp(net, group, way.options);
        body(ddp, net, whole, group);
      },
      way.backend);
}

void drop_gradients(DistributedDataParallel<Graph>& ddp, const Graph& whole) {
  ddp.zero_grad();
  for (auto& parameter : whole->parameters()) parameter.mutable_grad() = Tensor();
}

Tensor loss_of(const Tensor& y) { return y.square().mean(); }

/// Batches of a step, by number.
Tensor batch(int step, int number) {
  return draw({12, 6}, static_cast<uint64_t>(10 * step + number));
}

TEST(DdpBackwards, OfTheSumOfSeveralForwardsAreAveraged) {
  for (const Way& way : ways()) {
    on_two_ranks(way, [](auto& ddp, const Graph& net, const Graph& whole, const auto& group) {
      for (int step = 0; step < 3; ++step) {
        drop_gradients(ddp, whole);
        const Tensor a = ddp->forward(share_of(batch(step, 0), group));
        const Tensor b = ddp->forward(share_of(batch(step, 1), group));
        (loss_of(a) + loss_of(b)).backward();
        (loss_of(whole->forward(batch(step, 0))) + loss_of(whole->forward(batch(step, 1))))
            .backward();
        expect_same_gradients(*net, *whole, 1e-12);
      }
    });
  }
}

constexpr const char* kLate = "is not averaged: after a forward, or several, one backward is";

TEST(DdpBackwards, ASecondOneThroughTheSameGraphIsRefused) {
  for (const Way& way : ways()) {
    on_two_ranks(way, [](auto& ddp, const Graph& net, const Graph& whole, const auto& group) {
      for (int step = 0; step < 2; ++step) {
        drop_gradients(ddp, whole);
        const Tensor loss = loss_of(ddp->forward(share_of(batch(step, 0), group)));
        loss.backward({}, /*keep_graph=*/true);
        loss_of(whole->forward(batch(step, 0))).backward();
        expect_same_gradients(*net, *whole, 1e-12);
        EXPECT_THAT(error_of([&] { loss.backward(); }), HasSubstr(kLate));
      }
    });
  }
}

TEST(DdpBackwards, OneForEachOfTwoForwardsIsRefusedFromTheSecondOn) {
  for (const Way& way : ways()) {
    on_two_ranks(way, [](auto& ddp, const Graph&, const Graph&, const auto& group) {
      const Tensor a = loss_of(ddp->forward(share_of(batch(0, 0), group)));
      const Tensor b = loss_of(ddp->forward(share_of(batch(0, 1), group)));
      a.backward();
      EXPECT_THAT(error_of([&] { b.backward(); }), HasSubstr(kLate));
    });
  }
}

// As pipelines have it: forwards run ahead of backwards.
TEST(DdpBackwards, UnderNoSyncMayComeBetweenASynchronisedForwardAndItsOwn) {
  for (const Way& way : ways()) {
    on_two_ranks(way, [](auto& ddp, const Graph& net, const Graph& whole, const auto& group) {
      for (int step = 0; step < 3; ++step) {
        drop_gradients(ddp, whole);
        std::array<Tensor, 3> losses;
        for (int micro = 0; micro < 3; ++micro) {
          const auto scope = ddp.accumulate(micro, 3);
          losses[static_cast<size_t>(micro)] =
              loss_of(ddp->forward(share_of(batch(step, micro), group)));
        }
        for (int micro = 0; micro < 3; ++micro) {
          const auto scope = ddp.accumulate(micro, 3);
          losses[static_cast<size_t>(micro)].backward();
          loss_of(whole->forward(batch(step, micro))).backward();
        }
        expect_same_gradients(*net, *whole, 1e-12);
      }
    });
  }
}

TEST(DdpBackwards, OutsideOfNoSyncBetweenASynchronisedForwardAndItsOwnIsRefused) {
  for (const Way& way : ways()) {
    on_two_ranks(way, [](auto& ddp, const Graph&, const Graph&, const auto& group) {
      Tensor first;
      {
        const auto pause = ddp.no_sync();
        first = loss_of(ddp->forward(share_of(batch(0, 0), group)));
      }
      const Tensor second = loss_of(ddp->forward(share_of(batch(0, 1), group)));
      EXPECT_THAT(error_of([&] { first.backward(); }),
                  HasSubstr("backward outside of no_sync after a forward under it"));
    });
  }
}

TEST(DdpBackwards, OfForwardsFromBeforeTheModuleWasWrappedAnewAreRefused) {
  for (const Way& way : ways()) {
    std::vector<Graph> nets{three_layers(), three_layers()};
    run_ranks(2,
              [&](ProcessGroup group) {
                const Graph net = nets[group.rank()];
                Tensor loss;
                {
                  DistributedDataParallel before(net, group, way.options);
                  loss = loss_of(before->forward(share_of(batch(0, 0), group)));
                }
                {
                  DdpOptions options = way.options;
                  options.init_sync = false;  // else autograd sees that weights were written to
                  DistributedDataParallel after(net, group, options);
                  EXPECT_THAT(error_of([&] { loss.backward({}, /*keep_graph=*/true); }),
                              HasSubstr("from before the module was wrapped anew"));
                  EXPECT_FALSE(net->parameters()[0].grad().defined());
                }
                EXPECT_EQ(error_of([&] { loss.backward(); }), kNoError) << "it trains alone";
              },
              {.backend = way.backend});
  }
}

// A term of the loss that comes from the weights alone is the same on every rank.
TEST(DdpBackwards, OfAPenaltyOnTheWeightsAreLeftAlone) {
  for (const Way& way : ways()) {
    on_two_ranks(way, [](auto& ddp, const Graph& net, const Graph& whole, const auto& group) {
      const auto penalty = [](const Graph& graph) {
        Tensor sum = torch::zeros({}, torch::kDouble);
        for (const auto& parameter : graph->parameters()) sum = sum + parameter.square().sum();
        return sum;
      };
      for (int step = 0; step < 3; ++step) {
        drop_gradients(ddp, whole);
        loss_of(ddp->forward(share_of(batch(step, 0), group))).backward();
        penalty(net).backward();
        loss_of(whole->forward(batch(step, 0))).backward();
        penalty(whole).backward();
        expect_same_gradients(*net, *whole, 1e-12);
      }
    });
  }
}

/// What torch.utils.checkpoint(use_reentrant=True) does with layer 1.
struct Checkpointed : torch::autograd::Function<Checkpointed> {
  static Tensor forward(torch::autograd::AutogradContext* context,
                        const Tensor& x,
                        GraphImpl* graph) {
    context->save_for_backward({x});
    context->saved_data["graph"] = reinterpret_cast<int64_t>(graph);
    const torch::NoGradGuard no_grad;
    return torch::tanh(graph->layers[1](x));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    auto* graph = reinterpret_cast<GraphImpl*>(context->saved_data["graph"].toInt());
    const Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    const torch::AutoGradMode on(true);
    torch::autograd::backward({torch::tanh(graph->layers[1](x))}, {gradients[0]});
    return {x.grad(), Tensor()};
  }
};

TEST(DdpBackwards, WithinBackwardWhereUnusedParametersAreSoughtNameTheParameter) {
  const auto make = [] {
    return make_graph({{6, 6}, {6, 6}}, [](GraphImpl& self, Tensor x) {
      return Checkpointed::apply(self.layers[0](x), &self);
    });
  };
  std::vector<Graph> nets{make(), make()};
  const auto errors = muster::testing::rank_errors(2, [&](ProcessGroup group) {
    DistributedDataParallel ddp(nets[group.rank()], group, {.find_unused_parameters = true});
    ddp->forward(draw({2, 6}, 1)).sum().backward();
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, HasSubstr("gradient of parameter layer1."));
    EXPECT_THAT(error, HasSubstr("needs static_graph"));
  }
}

}  // namespace
}  // namespace muster
