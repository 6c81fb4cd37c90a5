// Parameter groups against torch.optim's, from tests/golden/param_groups/golden.json.
#include "muster/optim/grouped_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/json.h"

#include "tests/support/error_of.h"
#include "tests/support/golden.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::pair<torch::Tensor, torch::Tensor> drawn(uint64_t seed, torch::Dtype dtype) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(seed);
  const torch::Tensor a = torch::rand({5, 7}, generator) * 2 - 1;
  const torch::Tensor b = torch::rand({5}, generator) * 2 - 1;
  return {a.to(dtype), b.to(dtype)};
}

ParamValues values_of(const Json& object) {
  ParamValues params;
  for (const auto& [name, value] : object.items()) params[name] = value.dump();
  return params;
}

/// "a" as it is, "b" in a group of its own.
struct TwoGroups {
  torch::Tensor a, b;
  std::unique_ptr<optim::Optimizer> optimizer;

  TwoGroups(const std::string& name,
            double lr,
            const ParamValues& params,
            double factor,
            std::optional<double> decay,
            torch::Dtype dtype = torch::kFloat) {
    std::tie(a, b) = drawn(499, dtype);
    optimizer = optim::make_grouped(
        optim::optimizers().at(name),
        {{.parameters = {{"a", a.requires_grad_()}}},
         {.parameters = {{"b", b.requires_grad_()}}, .lr_factor = factor, .weight_decay = decay}},
        lr,
        params);
  }

  void step(int64_t number, double lr) {
    std::tie(a.mutable_grad(), b.mutable_grad()) =
        drawn(static_cast<uint64_t>(500 + number), a.scalar_type());
    optimizer->set_lr(lr);
    optimizer->step();
  }
};

TEST(GroupedOptimizer, EndsWhereTorchOptimEnds) {
  const Json golden = test::read_golden("param_groups");
  for (const Json& c : golden.at("cases")) {
    const double lr = c.at("lr");
    const bool is_double = c.at("dtype") == "float64";
    TwoGroups groups(c.at("optimizer"),
                     lr,
                     values_of(c.at("params")),
                     c.at("factor"),
                     c.at("weight_decay").get<double>(),
                     is_double ? torch::kDouble : torch::kFloat);
    for (int64_t step = 0; step < golden.at("steps"); ++step)
      groups.step(step, lr * (1 - static_cast<double>(step) / 24));
    const auto far = [](const torch::Tensor& have, const Json& want) {
      const torch::Tensor expected =
          torch::tensor(want.get<std::vector<double>>(), torch::kDouble).view(have.sizes());
      return (have.detach().to(torch::kDouble) - expected).abs().max().item<double>();
    };
    EXPECT_LE(far(groups.a, c.at("a")), c.at("tolerance").get<double>()) << c.at("optimizer");
    EXPECT_LE(far(groups.b, c.at("b")), c.at("tolerance").get<double>()) << c.at("optimizer");
  }
}

TEST(GroupedOptimizer, OfEqualGroupsIsTheOptimizerItselfAndTakesItsState) {
  for (const optim::OptimizerEntry* entry : optim::optimizers()) {
    TwoGroups groups(std::string(entry->name), 0.01, {}, 1, {});
    torch::Tensor a, b;
    std::tie(a, b) = drawn(499, torch::kFloat);
    const auto whole =
        entry->make({{"a", a.requires_grad_()}, {"b", b.requires_grad_()}}, 0.01, {});
    const auto step_whole = [&](int64_t number) {
      std::tie(a.mutable_grad(), b.mutable_grad()) =
          drawn(static_cast<uint64_t>(500 + number), torch::kFloat);
      whole->step();
    };
    for (int64_t step = 0; step < 3; ++step) {
      groups.step(step, 0.01);
      step_whole(step);
    }
    EXPECT_TRUE(torch::equal(groups.a, a) && torch::equal(groups.b, b)) << entry->name;
    EXPECT_EQ(groups.optimizer->momentum(), whole->momentum());
    // Each goes on from the other's state.
    const tensor::NamedTensorList ours = groups.optimizer->state(), theirs = whole->state();
    EXPECT_EQ(ours.size(), theirs.size());
    groups.optimizer->load_state({theirs, {}});
    whole->load_state({ours, {}});
    groups.step(3, 0.01);
    step_whole(3);
    EXPECT_TRUE(torch::equal(groups.a, a) && torch::equal(groups.b, b)) << entry->name;
  }
}

TEST(GroupedOptimizer, RefusesWhatMakesNoSense) {
  EXPECT_THAT(test::refusal_of([] { TwoGroups("sgd", 0.1, {}, -1, {}); }),
              HasSubstr("lr_factor: it is not negative"));
  EXPECT_THAT(test::refusal_of([] { TwoGroups("sgd", 0.1, {}, 1, -0.5); }),
              HasSubstr("weight_decay"));
  TwoGroups groups("sgd", 0.1, {}, 1, 0);
  EXPECT_THAT(test::refusal_of([&] {
                groups.optimizer->load_state({{{"momentum/c", torch::zeros({5})}}, {}});
              }),
              HasSubstr("momentum/c"));
}

}  // namespace
}  // namespace muster
