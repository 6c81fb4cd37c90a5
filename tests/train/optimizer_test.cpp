// Our optimizers against torch.optim's, from tests/golden/optimizers/golden.json.
#include "muster/train/optimizer.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/json.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::pair<torch::Tensor, torch::Tensor> draw(uint64_t seed, torch::Dtype dtype) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(seed);
  const torch::Tensor a = torch::rand({3, 4}, generator) * 2 - 1;
  const torch::Tensor b = torch::rand({5}, generator) * 2 - 1;
  return {a.to(dtype), b.to(dtype)};
}

ParamValues params_of(const Json& object) {
  ParamValues params;
  for (const auto& [name, value] : object.items()) params[name] = value.dump();
  return params;
}

struct Setting {
  torch::Tensor a, b;
  std::unique_ptr<train::Optimizer> optimizer;

  Setting(const std::string& name, double lr, const ParamValues& params, torch::Dtype dtype) {
    std::tie(a, b) = draw(499, dtype);
    optimizer = train::optimizers().at(name).make(
        {{"a", a.requires_grad_()}, {"b", b.requires_grad_()}}, lr, params);
  }

  void step(int64_t number, torch::Dtype dtype) {
    auto [gradient_a, gradient_b] = draw(static_cast<uint64_t>(500 + number), dtype);
    a.mutable_grad() = gradient_a;
    b.mutable_grad() = number >= 3 && number <= 5 ? torch::Tensor() : gradient_b;
    optimizer->step();
  }
};

Json golden() {
  std::ifstream file(std::string(MUSTER_SOURCE_DIR) + "/tests/golden/optimizers/golden.json");
  return Json::parse(file);
}

double distance(const torch::Tensor& ours, const Json& expected) {
  const torch::Tensor theirs = torch::tensor(expected.get<std::vector<double>>(), torch::kDouble);
  return (ours.detach().to(torch::kDouble).reshape(-1) - theirs).abs().max().item<double>();
}

TEST(Optimizers, EndWhereTorchOptimEnds) {
  const Json data = golden();
  ASSERT_GE(data.at("cases").size(), 16);
  for (const Json& expected : data.at("cases")) {
    const auto dtype = expected.at("dtype") == "float64" ? torch::kDouble : torch::kFloat;
    Setting setting(
        expected.at("optimizer"), expected.at("lr"), params_of(expected.at("params")), dtype);
    for (int64_t step = 0; step < data.at("steps").get<int64_t>(); ++step)
      setting.step(step, dtype);
    const double tolerance = expected.at("tolerance");
    EXPECT_LE(distance(setting.a, expected.at("final").at("a")), tolerance) << expected.dump();
    EXPECT_LE(distance(setting.b, expected.at("final").at("b")), tolerance) << expected.dump();
  }
}

TEST(Optimizers, GoOnBitForBitFromTheirSavedState) {
  for (const train::OptimizerEntry* entry : train::optimizers()) {
    const std::string name(entry->name);
    Setting straight(name, 0.05, {}, torch::kFloat), broken(name, 0.05, {}, torch::kFloat),
        resumed(name, 0.05, {}, torch::kFloat);
    for (int64_t step = 0; step < 8; ++step) straight.step(step, torch::kFloat);
    for (int64_t step = 0; step < 4; ++step) broken.step(step, torch::kFloat);
    const std::string bytes = train::to_safetensors({broken.optimizer->state(), {}});
    {
      const torch::NoGradGuard no_grad;
      resumed.a.copy_(broken.a);
      resumed.b.copy_(broken.b);
    }
    resumed.optimizer->load_state(train::parse_safetensors(bytes, "state"));
    for (int64_t step = 4; step < 8; ++step) resumed.step(step, torch::kFloat);
    EXPECT_TRUE(torch::equal(resumed.a, straight.a)) << name;
    EXPECT_TRUE(torch::equal(resumed.b, straight.b)) << name;
  }
}

TEST(Optimizers, RefuseStateOfAnotherShape) {
  Setting setting("sgd", 0.1, {}, torch::kFloat);
  try {
    setting.optimizer->load_state({{{"momentum/a", torch::zeros({2})}}, {}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("momentum/a"));
    EXPECT_THAT(error.what(), HasSubstr("[3, 4]"));
  }
}

TEST(Optimizers, RefuseValuesThatMakeNoSense) {
  for (const auto& [name, params] : std::vector<std::pair<std::string, ParamValues>>{
           {"sgd", {{"momentum", "-0.1"}}},
           {"sgd", {{"nesterov", "true"}, {"momentum", "0"}}},
           {"adamw", {{"beta1", "1"}}},
           {"sgd", {{"moment", "1"}}}}) {
    EXPECT_THROW(Setting(name, 0.1, params, torch::kFloat), Error) << name;
  }
}

}  // namespace
}  // namespace muster
