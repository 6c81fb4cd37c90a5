// Numbers: those of the CPU, bit for bit.
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/error_of.h"
#include "tests/testing/accelerator/fake.h"

namespace muster {
namespace {

using test::kFake0;
using test::kFake1;
using test::same_bits;
using testing::FakeAccelerator;

/// The largest difference of weights, gradients and buffers after three steps on each device; 0 if
/// all bits are the same.
template <class Module, class Loss>
double difference_of_training(Module cpu, const Loss& loss_of) {
  auto twin = std::dynamic_pointer_cast<typename Module::ContainedType>(cpu->clone(kFake1));
  const auto train = [&](auto& module, c10::Device device) {
    torch::optim::SGD sgd(module.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int step = 0; step < 3; ++step) {
      torch::manual_seed(step);
      sgd.zero_grad();
      loss_of(module, device).backward();
      sgd.step();
    }
  };
  train(*cpu, c10::kCPU);
  train(*twin, kFake1);
  double worst = 0;
  const auto compare = [&](const at::Tensor& a, const at::Tensor& b) {
    if (same_bits(a, b)) return;
    worst = std::max(worst, (a.cpu() - b.cpu()).abs().max().template item<double>());
    worst = std::max(worst, 1e-300);  // also where only the sign of a zero differs
  };
  for (size_t i = 0; i < cpu->parameters().size(); ++i) {
    compare(cpu->parameters()[i], twin->parameters()[i]);
    compare(cpu->parameters()[i].grad(), twin->parameters()[i].grad());
  }
  for (size_t i = 0; i < cpu->buffers().size(); ++i) compare(cpu->buffers()[i], twin->buffers()[i]);
  return worst;
}

const auto kCrossEntropyOfImages = [](auto& module, c10::Device device) {
  const at::Tensor image =
      torch::sin(torch::arange(8 * 3 * 256).to(at::kFloat)).view({8, 3, 16, 16});
  const at::Tensor label = torch::arange(8);
  return torch::cross_entropy_loss(module.forward(image.to(device)), label.to(device));
};

at::Tensor some_text() {
  return torch::sin(torch::arange(12 * 8 * 32).to(at::kFloat)).view({12, 8, 32});
}

TEST(FakeOperators, AConvolutionalNetTrainsAsOnTheCpu) {
  namespace nn = torch::nn;
  const FakeAccelerator fake({.devices = 2});
  nn::Sequential net(nn::Conv2d(nn::Conv2dOptions(3, 16, 3).padding(1)),
                     nn::BatchNorm2d(16),
                     nn::ReLU(),
                     nn::MaxPool2d(2),
                     nn::Conv2d(16, 32, 3),
                     nn::AdaptiveAvgPool2d(2),
                     nn::Flatten(),
                     nn::Linear(128, 10));
  EXPECT_EQ(difference_of_training(net, kCrossEntropyOfImages), 0);
}

TEST(FakeOperators, DropoutDrawsTheSameNumbersFromItsOwnGenerator) {
  namespace nn = torch::nn;
  const FakeAccelerator fake({.devices = 2});
  nn::Sequential net(
      nn::Flatten(), nn::Linear(768, 64), nn::ReLU(), nn::Dropout(0.5), nn::Linear(64, 10));
  EXPECT_EQ(difference_of_training(net, kCrossEntropyOfImages), 0);
}

TEST(FakeOperators, ATransformerTrainsAsOnTheCpu) {
  namespace nn = torch::nn;
  const FakeAccelerator fake({.devices = 2});
  nn::TransformerEncoder net(
      nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(32, 4).dropout(0)), 2);
  EXPECT_EQ(difference_of_training(net,
                                   [](auto& module, c10::Device device) {
                                     return module.forward(some_text().to(device)).pow(2).mean();
                                   }),
            0);
}

TEST(FakeOperators, LstmAndGruDifferByRoundingOnly) {
  // LibTorch takes fused cells on PrivateUse1, which add biases in another order than the CPU's.
  namespace nn = torch::nn;
  const FakeAccelerator fake({.devices = 2});
  const auto loss = [](auto& module, c10::Device device) {
    return std::get<0>(module.forward(some_text().to(device))).pow(2).mean();
  };
  EXPECT_LT(difference_of_training(nn::LSTM(nn::LSTMOptions(32, 24).num_layers(2)), loss), 1e-6);
  EXPECT_LT(difference_of_training(nn::GRU(nn::GRUOptions(32, 24)), loss), 1e-6);
}

TEST(FakeOperators, AttentionIsTheCpusKernel) {
  const FakeAccelerator fake({.devices = 2});
  const auto gradient = [](c10::Device device) {
    const at::Tensor q =
        torch::linspace(-1, 1, 1024).view({2, 4, 16, 8}).to(device).requires_grad_();
    at::scaled_dot_product_attention(q, q, q, {}, 0.0, true).pow(2).sum().backward();
    return q.grad();
  };
  EXPECT_TRUE(same_bits(gradient(c10::kCPU), gradient(kFake1)));
}

TEST(FakeOperators, FusedAndForeachOptimizersRun) {
  const FakeAccelerator fake;
  const auto stepped = [](c10::Device device) {
    torch::manual_seed(5);
    std::vector<at::Tensor> p, g, m, v, none, steps;
    for (int i = 0; i < 3; ++i) {
      p.push_back(torch::randn({50, 7 + i}).to(device));
      g.push_back(torch::randn({50, 7 + i}).to(device));
      m.push_back(torch::zeros_like(p[i]));
      v.push_back(torch::zeros_like(p[i]));
      steps.push_back(torch::ones({}, p[i].options()));
    }
    at::_fused_adamw_(p, g, m, v, none, steps, 1e-2, 0.9, 0.999, 1e-2, 1e-8, false, false);
    at::_foreach_mul_(p, 0.99);
    at::_foreach_addcdiv_(p, m, v, 0.01);
    return at::cat({p[0].flatten(), p[1].flatten(), p[2].flatten(), m[2].flatten()});
  };
  EXPECT_TRUE(same_bits(stepped(c10::kCPU), stepped(kFake0)));
}

TEST(FakeOperators, ViewsWriteThroughAndOutAndResizeAndSetWork) {
  const FakeAccelerator fake;
  const auto exercised = [](c10::Device device) {
    at::Tensor x = torch::arange(24, device).view({2, 3, 4});
    x.transpose(0, 2).select(0, 1).add_(100);
    x.view(-1).unfold(0, 2, 2)[3].zero_();
    at::Tensor out = torch::empty({0}, x.options().dtype(at::kFloat));
    at::add_out(out, x.to(at::kFloat), 1);
    at::Tensor grown = torch::ones({4}, x.options());
    grown.resize_({600});
    at::Tensor set = torch::zeros({2}, x.options());
    set.set_(x.storage(), 3, {2}, {1});
    EXPECT_TRUE(set.is_alias_of(x));
    return at::cat({x.flatten().to(at::kFloat),
                    out.flatten(),
                    grown.narrow(0, 0, 4).to(at::kFloat),
                    set.to(at::kFloat)});
  };
  EXPECT_TRUE(same_bits(exercised(c10::kCPU), exercised(kFake0)));
}

TEST(FakeOperators, LinearAlgebraFftSortAndNonzeroAreTheCpus) {
  const FakeAccelerator fake;
  const at::Tensor host = torch::randn({4, 4}) + 4 * torch::eye(4), there = host.to(kFake0);
  EXPECT_TRUE(same_bits(at::linalg_inv(host), at::linalg_inv(there)));
  EXPECT_TRUE(same_bits(at::fft_fft(host).abs(), at::fft_fft(there).abs()));
  EXPECT_TRUE(same_bits(std::get<1>(host.sort()), std::get<1>(there.sort())));
  EXPECT_TRUE(same_bits(host.nonzero(), there.nonzero()));
  EXPECT_TRUE(same_bits(host.index({host > 0}), there.index({there > 0})));
}

TEST(FakeOperators, TwoStagesOnTwoDevicesTrainAsOne) {
  const FakeAccelerator fake({.devices = 2});
  torch::nn::Linear one(32, 64), two(64, 8);
  const at::Tensor x = some_text().view({-1, 32});
  const auto gradients = [&](c10::Device first, c10::Device second) {
    one->zero_grad();
    two->zero_grad();
    one->to(first);
    two->to(second);
    two->forward(one->forward(x.to(first)).relu().to(second)).pow(2).mean().backward();
    return std::vector{one->weight.grad().cpu(), one->bias.grad().cpu(), two->weight.grad().cpu()};
  };
  const auto expected = gradients(c10::kCPU, c10::kCPU), found = gradients(kFake0, kFake1);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same_bits(expected[i], found[i])) << i;
}

TEST(FakeGenerators, ASeedGivesTheCpusNumbersOnEachDevice) {
  const FakeAccelerator fake({.devices = 2});
  torch::manual_seed(42);
  const at::Tensor host = torch::randn({5});
  torch::manual_seed(42);
  const at::Tensor first = torch::randn({5}, kFake0), second = torch::randn({5}, kFake1);
  EXPECT_TRUE(same_bits(first, host));
  EXPECT_TRUE(same_bits(second, host)) << "each device has a generator of its own";
  EXPECT_FALSE(same_bits(torch::randn({5}, kFake0), host));
}

TEST(FakeGenerators, StatesAreSavedAndSetAndOnesOwnIsTaken) {
  const FakeAccelerator fake({.devices = 2});
  at::Generator of_device = at::globalContext().defaultGenerator(kFake1);
  const at::Tensor state = of_device.get_state();
  const at::Tensor drawn = torch::rand({3}, kFake1);
  of_device.set_state(state);
  EXPECT_TRUE(same_bits(torch::rand({3}, kFake1), drawn));
  at::Generator own = at::globalContext().getAcceleratorHooksInterface().getNewGenerator(1);
  own.set_current_seed(9);
  const at::Tensor a = at::rand({3}, own, at::TensorOptions(kFake1));
  own.set_current_seed(9);
  EXPECT_EQ(own.device(), kFake1);
  EXPECT_TRUE(same_bits(a, at::rand({3}, own, at::TensorOptions(kFake1))));
  EXPECT_THAT(test::error_of([&] { own.set_offset(1); }),
              ::testing::StartsWith("offset of a fake device's generator: "));
}

TEST(FakeAutocast, LinearRunsInTheLowerTypeAndSoftmaxInFloat) {
  const FakeAccelerator fake;
  torch::nn::Linear net(8, 8);
  net->to(kFake0);
  at::autocast::set_autocast_enabled(c10::kPrivateUse1, true);
  at::autocast::set_autocast_dtype(c10::kPrivateUse1, at::kBFloat16);
  const at::Tensor linear = net->forward(torch::randn({4, 8}, kFake0));
  const at::Tensor softmax = linear.log_softmax(1);
  at::autocast::set_autocast_enabled(c10::kPrivateUse1, false);
  at::autocast::clear_cache();
  softmax.sum().backward();
  EXPECT_EQ(linear.scalar_type(), at::kBFloat16);
  EXPECT_EQ(softmax.scalar_type(), at::kFloat);
  EXPECT_EQ(net->weight.grad().scalar_type(), at::kFloat);
}

// A parameter keeps its version there, as do its views; what is made there has none.
TEST(FakeInference, NetsAnswerInInferenceModeAsOutsideOfIt) {
  const FakeAccelerator fake;
  torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)),
                            torch::nn::BatchNorm2d(4),
                            torch::nn::ReLU(),
                            torch::nn::Flatten(),
                            torch::nn::Linear(4 * 36, 5));
  net->to(kFake0);
  net->eval();
  const at::Tensor images = torch::randn({2, 3, 8, 8}, kFake0);
  const at::Tensor outside = net->forward(images);
  {
    const c10::InferenceMode mode;
    const at::Tensor inside = net->forward(images);
    EXPECT_TRUE(inside.is_inference());
    EXPECT_TRUE(same_bits(inside, outside.detach()));
    const at::Tensor view = net->parameters()[0].view(-1);
    EXPECT_FALSE(view.is_inference());
  }
  net->train();
  net->forward(images).sum().backward();  // the parameters are as they were
  EXPECT_TRUE(net->parameters()[0].grad().defined());
}

}  // namespace
}  // namespace muster
