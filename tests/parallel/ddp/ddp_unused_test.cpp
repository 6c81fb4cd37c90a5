// Parameters and outputs that a step leaves out.
// The cases are those of PyTorch's test_c10d_gloo.py and distributed_test.py that need no GPU, as
// facts: what must hold, not how.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/parallel/graphs.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): its helpers are what is written here
using ::testing::HasSubstr;
using ::testing::Not;

// --- outputs without backward, unused parameters, control flow

TEST(DdpGraphs, FourForwardsWhoseOutputsAreDroppedThenTraining) {
  for (const bool find_unused : {false, true}) {
    const auto make = [] {
      return make_graph({{6, 4}},
                        [](GraphImpl& self, Tensor x) { return torch::tanh(self.layers[0](x)); });
    };
    std::vector<Graph> nets{make(), make()};
    run_ranks(2, [&](ProcessGroup group) {
      const Graph net = nets[group.rank()];
      DistributedDataParallel ddp(net, group, {.find_unused_parameters = find_unused});
      for (int i = 0; i < 4; ++i) ddp->forward(draw({2, 6}, 1));
      for (int step = 0; step < 4; ++step) {
        ddp.zero_grad();
        ddp->forward(draw({2, 6}, static_cast<uint64_t>(group.rank()))).sum().backward();
        const Tensor all = group.all_gather(net->parameters()[0].grad());
        EXPECT_TRUE(torch::equal(all[0], all[1]));
      }
    });
  }
}

TEST(DdpGraphs, ParametersUnusedInTheFirstStepAloneTrainAfterwards) {
  const auto make = [] {
    return make_graph({{6, 6}, {6, 6}}, [calls = 0](GraphImpl& self, Tensor x) mutable {
      x = self.layers[0](x);
      return calls++ == 0 ? x : self.layers[1](x);
    });
  };
  expect_equals_one_rank(make, {.find_unused_parameters = true}, 3);
}

TEST(DdpGraphs, ControlFlowThatIsTheSameOnAllRanks) {
  const auto make = [] {
    return make_graph({{6, 6}, {6, 6}}, [calls = 0](GraphImpl& self, Tensor x) mutable {
      x = torch::relu(self.layers[0](x));
      return calls++ % 2 == 0 ? x : self.layers[1](x);
    });
  };
  expect_equals_one_rank(make, {.find_unused_parameters = true}, 2, "thread", 1e-12, 6);
  std::vector<Graph> nets{make(), make()};
  const std::string error = error_of([&] {
    run_ranks(2, [&](ProcessGroup group) {
      DistributedDataParallel ddp(nets[group.rank()], group);
      for (int step = 0; step < 2; ++step) ddp->forward(draw({2, 6}, 0)).sum().backward();
    });
  });
  EXPECT_THAT(error, HasSubstr("layer1.weight, layer1.bias"));
}

TEST(DdpGraphs, ControlFlowThatDiffersBetweenRanks) {
  std::vector<Graph> nets;
  for (int rank = 0; rank < 2; ++rank) {
    nets.push_back(
        make_graph({{6, 6}, {6, 6}}, [calls = 0, rank](GraphImpl& self, Tensor x) mutable {
          x = self.layers[0](x);
          return calls++ % 2 == 1 && rank == 1 ? self.layers[1](x) : x;
        }));
  }
  run_ranks(2, [&](ProcessGroup group) {
    const Graph net = nets[group.rank()];
    DistributedDataParallel ddp(net, group, {.find_unused_parameters = true});
    for (int step = 0; step < 6; ++step) {
      ddp.zero_grad();
      ddp->forward(torch::ones({3, 6}, torch::kDouble)).sum().backward();
      const Tensor gradient = net->layers[1]->bias.grad();
      ASSERT_EQ(gradient.defined(), step % 2 == 1);
      if (gradient.defined()) {  // 3 rows on rank 1, none on rank 0
        EXPECT_TRUE(torch::equal(gradient, torch::full({6}, 1.5, torch::kDouble)));
      }
    }
  });
}

TEST(DdpGraphs, NestedUnusedParametersAreNamedAndIgnoredOnesAreNot) {
  struct DeepImpl : torch::nn::Module {
    DeepImpl() {
      inner = register_module("inner", std::make_shared<torch::nn::Module>());
      for (const char* name : {"used", "spare", "left_out"})
        inner->register_module(name, torch::nn::Linear(2, 2));
      auto deeper = inner->register_module("deeper", std::make_shared<torch::nn::Module>());
      deeper->register_module("spare",
                              torch::nn::Linear(torch::nn::LinearOptions(2, 2).bias(false)));
    }
    Tensor forward(Tensor x) {
      return inner->named_children()["used"]->as<torch::nn::LinearImpl>()->forward(x);
    }
    std::shared_ptr<torch::nn::Module> inner;
  };
  std::vector<std::shared_ptr<DeepImpl>> nets{std::make_shared<DeepImpl>(),
                                              std::make_shared<DeepImpl>()};
  const std::string error = error_of([&] {
    run_ranks(2, [&](ProcessGroup group) {
      DistributedDataParallel ddp(
          nets[group.rank()],
          group,
          {.parameters_to_ignore = {"inner.left_out.weight", "inner.left_out.bias"}});
      for (int step = 0; step < 2; ++step) ddp->forward(torch::ones({2, 2})).sum().backward();
    });
  });
  EXPECT_THAT(error, HasSubstr("3 parameters got no gradient"));
  for (const char* name : {"inner.spare.weight", "inner.spare.bias", "inner.deeper.spare.weight"})
    EXPECT_THAT(error, HasSubstr(name));
  EXPECT_THAT(error, Not(HasSubstr("left_out")));
  EXPECT_THAT(error, Not(HasSubstr("used.weight")));
}

TEST(DdpGraphs, UnusedParametersThatAreSharedCountOnce) {
  struct SharedImpl : torch::nn::Module {
    SharedImpl() {
      spare =
          register_module("spare", torch::nn::Linear(torch::nn::LinearOptions(4, 3).bias(false)));
      tied = register_parameter("tied", spare->weight);
      head = register_module("head", torch::nn::Linear(4, 3));
    }
    Tensor forward(Tensor x) { return head(x).sum(); }
    torch::nn::Linear spare{nullptr}, head{nullptr};
    Tensor tied;
  };
  for (const bool is_static : {false, true}) {
    std::vector<std::shared_ptr<SharedImpl>> nets{std::make_shared<SharedImpl>(),
                                                  std::make_shared<SharedImpl>()};
    run_ranks(2, [&](ProcessGroup group) {
      const auto net = nets[group.rank()];
      DistributedDataParallel ddp(
          net, group, {.find_unused_parameters = true, .static_graph = is_static});
      for (int step = 0; step < 6; ++step) {
        Tensor loss = ddp->forward(torch::ones({2, 4}) + group.rank());
        loss /= 10;  // in place, behind the output that DDP marks
        ddp.zero_grad();
        loss.backward();
        EXPECT_TRUE(torch::allclose(net->head->weight.grad(), torch::full({3, 4}, 0.3)));
      }
    });
  }
}
// --- an operation that a rank leaves out

TEST(DdpMonitored, BackwardEndsWithTheWordsThatNameTheRank) {
  for (const std::string backend : {"thread", "shm", "gloo"}) {
    const auto errors = testing::rank_errors(
        2,
        [](ProcessGroup group) {
          torch::nn::Linear net(10, 10);
          DistributedDataParallel ddp(net, group);
          for (int step = 0; step < 3; ++step) ddp->forward(torch::ones({2, 10})).sum().backward();
        },
        {.backend = backend, .monitor = {.faults = "skip@rank=1,op=all_reduce,at=2"}});
    EXPECT_THAT(errors[0],
                ::testing::AllOf(::testing::HasSubstr("rank 1"),
                                 ::testing::HasSubstr("all_reduce"),
                                 ::testing::Not(::testing::HasSubstr("Traceback"))))
        << backend;
  }
}

}  // namespace
}  // namespace muster
