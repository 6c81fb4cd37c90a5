// The module that was wrapped, and what became of it since.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/parallel/golden_models.h"
#include "tests/parallel/graphs.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using muster::testing::run_ranks;
using parallel::DdpOptions;
using parallel::DistributedDataParallel;
using test::error_of;
using test::golden_loss;
using test::golden_models;
using test::GoldenModel;
using test::Graph;
using ::testing::HasSubstr;

using Model = std::shared_ptr<GoldenModel>;

TEST(DdpIdentity, AModuleOfAnotherDtypeThanItWasWrappedWithIsRefusedByParameter) {
  const auto models = golden_models(2);
  std::vector<std::string> errors(2);
  run_ranks(2, [&](ProcessGroup group) {
    const Model model = models[group.rank()];
    DistributedDataParallel ddp(model, group);
    golden_loss(ddp, 0).backward();
    ddp.zero_grad();
    model->to(torch::kDouble);
    errors[group.rank()] = error_of([&] { golden_loss(ddp, 1); });
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, HasSubstr("parameter fc1.weight"));
    EXPECT_THAT(error, HasSubstr("a wrapped module keeps its dtype, shapes and device: float32["));
    EXPECT_THAT(error, HasSubstr("got float64["));
  }
}

TEST(DdpIdentity, AParameterOfAnotherShapeIsRefused) {
  const auto models = golden_models(1);
  run_ranks(1, [&](ProcessGroup group) {
    DistributedDataParallel ddp(models[0], group);
    torch::Tensor bias = models[0]->named_parameters()["fc1.bias"];
    bias.set_data(torch::zeros({1}));
    EXPECT_THAT(error_of([&] { golden_loss(ddp, 0); }), HasSubstr("got float32[1] on cpu now"));
  });
}

TEST(DdpIdentity, AReplacedSubmoduleIsRefusedByParameter) {
  const auto models = golden_models(1);
  run_ranks(1, [&](ProcessGroup group) {
    DistributedDataParallel ddp(models[0], group);
    golden_loss(ddp, 0).backward();
    const auto fc2 = models[0]->named_children()["fc2"];
    models[0]->replace_module("fc2", torch::nn::Linear(12, 6));
    EXPECT_THAT(error_of([&] { golden_loss(ddp, 1); }), HasSubstr("parameter fc2.weight"));
    models[0]->replace_module("fc2", fc2);
    EXPECT_NO_THROW(golden_loss(ddp, 1).backward());
    models[0]->unregister_module("fc3");
    models[0]->unregister_module("fc2");
    EXPECT_THAT(error_of([&] { golden_loss(ddp, 1); }),
                HasSubstr("keeps the parameters it was wrapped with"));
  });
}

TEST(DdpIdentity, NewValuesInTheSameParametersAreFine) {
  const auto models = golden_models(2);
  run_ranks(2, [&](ProcessGroup group) {
    const Model model = models[group.rank()];
    DistributedDataParallel ddp(model, group);
    golden_loss(ddp, 0).backward();
    model->to(torch::kFloat);  // changes nothing
    for (auto& parameter : model->parameters()) parameter.set_data(parameter.detach() * 0.5);
    EXPECT_NO_THROW(golden_loss(ddp, 1).backward());
  });
}

/// What is done to a module between two steps, and leaves its weights as they are.
using Change = std::function<void(Graph)>;

/// Averages after `change`, and says so: each rank has other rows, and the gradients of all.
void expect_averaged_after(const Change& change, const DdpOptions& options) {
  const auto make = [] { return test::three_layers(torch::kFloat); };
  test::run_beside_whole(
      2, make, make, [&](const ProcessGroup& group, const Graph& net, const Graph& whole) {
        DistributedDataParallel ddp(net, group, options);
        for (int step = 0; step < 4; ++step) {
          const torch::Tensor x =
              test::draw({12, 6}, static_cast<uint64_t>(step)).to(torch::kFloat);
          ddp.zero_grad();
          for (auto& parameter : whole->parameters()) parameter.mutable_grad() = torch::Tensor();
          if (step == 1 || step == 2) change(net);
          ddp->forward(test::share_of(x, group)).square().mean().backward();
          whole->forward(x).square().mean().backward();
          test::expect_same_gradients(*net, *whole, 1e-6);
        }
      });
}

// Either leaves the tensors without the hooks that average their gradients.
TEST(DdpIdentity, WeightsMayBeLoadedAndConvertedThereAndBackAfterTheWrap) {
  std::ostringstream saved;
  torch::save(test::three_layers(torch::kFloat), saved);
  for (const bool views : {false, true}) {
    for (const int64_t direct : {int64_t{0}, int64_t{1} << 30}) {
      const DdpOptions options{.gradient_as_bucket_view = views, .direct_bytes = direct};
      expect_averaged_after(
          [&](Graph net) {
            std::istringstream file(saved.str());
            torch::load(net, file);
          },
          options);
      expect_averaged_after(
          [](Graph net) {
            net->to(torch::kDouble);
            net->to(torch::kFloat);
          },
          options);
    }
  }
}

// PyTorch's DDP trains on: each rank by its own gradient of that parameter.
TEST(DdpIdentity, AParameterThatIsUnfrozenAfterTheWrapIsRefused) {
  for (const char* backend : {"thread", "gloo"}) {
    std::vector<Graph> nets{test::three_layers(), test::three_layers()};
    const auto errors =
        muster::testing::rank_errors(2,
                                     [&](ProcessGroup group) {
                                       const Graph net = nets[group.rank()];
                                       net->layers[1]->bias.requires_grad_(false);
                                       DistributedDataParallel ddp(net, group);
                                       ddp->forward(test::draw({2, 6}, 1)).sum().backward();
                                       net->layers[1]->bias.requires_grad_(true);
                                       ddp->forward(test::draw({2, 6}, 1)).sum().backward();
                                     },
                                     {.backend = backend});
    for (const std::string& error : errors) {
      EXPECT_THAT(error,
                  HasSubstr("parameter layer1.bias: a parameter that is trained was so when"));
    }
  }
}

TEST(DdpIdentity, AParameterToIgnoreMayBeUnfrozen) {
  std::vector<Graph> nets{test::three_layers(), test::three_layers()};
  run_ranks(2, [&](ProcessGroup group) {
    const Graph net = nets[group.rank()];
    net->layers[1]->bias.requires_grad_(false);
    DistributedDataParallel ddp(net, group, {.parameters_to_ignore = {"layer1.bias"}});
    net->layers[1]->bias.requires_grad_(true);
    ddp->forward(test::draw({2, 6}, 1)).sum().backward();
    EXPECT_TRUE(net->layers[1]->bias.grad().defined());
  });
}

TEST(DdpIdentity, AnIgnoredParameterMayLoseTheGraphItWasInWhenItWasWrapped) {
  const auto models = golden_models(2);
  run_ranks(2, [&](ProcessGroup group) {
    const Model model = models[group.rank()];
    const auto batch = test::golden_batch(0, torch::kFloat);
    torch::Tensor old = model->forward(batch.x).sum();
    DistributedDataParallel ddp(model, group, {.parameters_to_ignore = {"fc2.weight"}});
    old = torch::Tensor();
    for (int64_t step = 0; step < 2; ++step)
      EXPECT_EQ(error_of([&] { golden_loss(ddp, step).backward(); }), test::kNoError);
  });
}

TEST(DdpDesync, FindsAFrozenParameterThatDiffers) {
  std::vector<Graph> nets{test::three_layers(), test::three_layers()};
  std::vector<std::string> errors(2);
  run_ranks(2, [&](ProcessGroup group) {
    const Graph net = nets[group.rank()];
    net->layers[1]->bias.requires_grad_(false);
    DistributedDataParallel ddp(net, group, {.desync_check_steps = 1});
    const torch::NoGradGuard no_grad;
    if (group.rank() == 1) net->layers[1]->bias.add_(1);
    const torch::AutoGradMode on(true);
    errors[group.rank()] = error_of([&] { ddp->forward(test::draw({2, 6}, 1)); });
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, HasSubstr("another value of parameter layer1.bias"));
}

}  // namespace
}  // namespace muster
