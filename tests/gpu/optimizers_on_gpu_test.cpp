// Optimizers, clipping and loss scales on a real device, beside the CPU's and torch.optim's.
#include <limits>
#include <map>

#include "muster/optim/clip.h"
#include "muster/optim/optimizer.h"
#include "muster/parallel/precision/grad_scaler.h"

#include "tests/gpu/gpu.h"

namespace muster {
namespace {

using test::apart;
using test::kGpu;
using test::OnGpu;

using OptimizersOnGpu = OnGpu;

at::Tensor drawn(uint64_t seed) {
  return torch::randn(
      {37, 11}, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kDouble));
}

/// After ten steps; the second parameter has no gradient in some of them.
std::vector<at::Tensor> ends(const std::string& name,
                             const ParamValues& params,
                             c10::Device device) {
  at::Tensor a = drawn(1).to(device).requires_grad_(), b = drawn(2).to(device).requires_grad_();
  const auto optimizer = optim::optimizers().at(name).make({{"a", a}, {"b", b}}, 0.01, params);
  for (uint64_t step = 0; step < 10; ++step) {
    a.mutable_grad() = drawn(10 + step).to(device);
    b.mutable_grad() = step % 3 == 1 ? at::Tensor() : drawn(50 + step).to(device);
    optimizer->step();
  }
  std::vector<at::Tensor> tensors{a.detach().cpu(), b.detach().cpu()};
  for (const auto& [named, tensor] : optimizer->state()) tensors.push_back(tensor.cpu());
  return tensors;
}

TEST_F(OptimizersOnGpu, EndWhereTheCpusEnd) {
  const std::multimap<std::string, ParamValues> cases{
      {"sgd", {}},
      {"sgd", {{"momentum", "0.9"}, {"nesterov", "true"}, {"weight_decay", "0.01"}}},
      {"adam", {}},
      {"adam", {{"amsgrad", "true"}, {"weight_decay", "0.1"}}},
      {"adamw", {{"weight_decay", "0.1"}}},
      {"rmsprop", {}},
      {"rmsprop", {{"momentum", "0.9"}, {"centered", "true"}}}};
  for (const auto& [name, params] : cases)
    EXPECT_LE(apart(ends(name, params, kGpu), ends(name, params, c10::kCPU)), 1e-13) << name;
}

TEST_F(OptimizersOnGpu, ClippingHasTheNormOfTheCpu) {
  const auto clipped = [](c10::Device device) {
    std::vector<at::Tensor> parameters;
    for (uint64_t i = 0; i < 3; ++i) {
      parameters.push_back(drawn(i).to(device).requires_grad_());
      parameters.back().mutable_grad() = drawn(20 + i).to(device);
    }
    std::vector<at::Tensor> left;
    left.push_back(optim::clip_grad_norm(parameters, 0.5).cpu());
    for (const at::Tensor& parameter : parameters) left.push_back(parameter.grad().cpu());
    return left;
  };
  EXPECT_LE(apart(clipped(kGpu), clipped(c10::kCPU)), 1e-13);
}

// A step whose gradients are not finite is left out, and the scale halved, without a wait for the device.
TEST_F(OptimizersOnGpu, AScalerLeavesAStepOutThatIsNotFinite) {
  at::Tensor weight = torch::ones({4}, kGpu).requires_grad_();
  torch::optim::SGD sgd({weight}, 0.5);
  parallel::GradScaler scaler({.init_scale = 1024});
  const auto step = [&](float factor) {
    sgd.zero_grad();
    scaler.scale((weight * factor).sum()).backward();
    const bool made = scaler.step(sgd);
    scaler.update();
    return made;
  };
  EXPECT_TRUE(step(1));
  EXPECT_EQ(apart(weight.detach(), torch::full({4}, 0.5F)), 0);
  EXPECT_FALSE(step(std::numeric_limits<float>::max()));
  EXPECT_EQ(scaler.scale(), 512);
  EXPECT_TRUE(step(1));
  EXPECT_EQ(apart(weight.detach(), torch::zeros({4})), 0);
}

}  // namespace
}  // namespace muster
