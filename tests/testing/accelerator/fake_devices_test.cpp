// Devices: names, the current one, what is refused, accelerators after each other.
#include <csignal>

#include <ATen/DeviceAccelerator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/error_of.h"
#include "tests/testing/accelerator/fake.h"

namespace muster {
namespace {

using test::error_of;
using test::fake_guard;
using test::kFake0;
using test::kFake1;
using test::refusal_of;
using test::same_bits;
using testing::FakeAccelerator;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(FakeDevices, AreNamedAndCountedAsLibTorchDoes) {
  const FakeAccelerator fake({.devices = 3});
  EXPECT_EQ(fake.device_count(), 3);
  EXPECT_EQ(at::accelerator::deviceCount(), 3);
  EXPECT_EQ(at::accelerator::getAccelerator(), c10::DeviceType::PrivateUse1);
  EXPECT_EQ(c10::Device("fake:2"), FakeAccelerator::device(2));
  EXPECT_EQ(torch::zeros({2}, c10::Device("fake:1")).device().str(), "fake:1");
}

TEST(FakeDevices, AGuardSetsTheCurrentOneAndBack) {
  const FakeAccelerator fake({.devices = 2});
  {
    const c10::DeviceGuard guard(kFake1);
    EXPECT_EQ(fake_guard().getDevice(), kFake1);
    EXPECT_EQ(torch::zeros({2}, c10::Device("fake")).device(), kFake1);
  }
  EXPECT_EQ(fake_guard().getDevice(), kFake0);
}

TEST(FakeDevices, CopiesKeepAllBits) {
  const FakeAccelerator fake({.devices = 2});
  const at::Tensor host = torch::randn({1000});
  EXPECT_TRUE(same_bits(host.to(kFake0).to(kFake1).to(at::kDouble).to(at::kFloat), host));
  EXPECT_TRUE(same_bits(host.view({10, 100}).t().to(kFake1).t().contiguous().view(-1), host));
}

TEST(FakeDevices, AHostThatReadsTheirMemoryGetsSigsegv) {
  const FakeAccelerator fake;
  const at::Tensor tensor = torch::ones({4}, kFake0);
  const auto read = [&] {
    std::signal(SIGSEGV, SIG_DFL);
    const volatile float value = *tensor.const_data_ptr<float>();
    static_cast<void>(value);
  };
  EXPECT_EXIT(read(), ::testing::KilledBySignal(SIGSEGV), "");
}

TEST(FakeDevices, ThatAreNotThereAreRefused) {
  const FakeAccelerator fake({.devices = 2});
  EXPECT_EQ(error_of([] { torch::zeros({1}, FakeAccelerator::device(2)); }),
            "fake:2: there are 2 fake devices, counted from 0\n"
            "hint: FakeAcceleratorOptions::devices");
}

TEST(FakeDevices, OneAcceleratorAtATime) {
  const FakeAccelerator fake;
  EXPECT_EQ(refusal_of([] { FakeAccelerator second; }),
            "a second FakeAccelerator: a process has one at a time\n"
            "hint: more devices of one: FakeAcceleratorOptions::devices");
}

TEST(FakeDevices, OptionsOutOfRangeAreRefusedAndNothingStays) {
  EXPECT_EQ(refusal_of([] { FakeAccelerator fake({.devices = 0}); }),
            "number of fake devices: 1 to 16 (got 0)");
  EXPECT_EQ(refusal_of([] { FakeAccelerator fake({.devices = 17}); }),
            "number of fake devices: 1 to 16 (got 17)");
  EXPECT_EQ(refusal_of([] { FakeAccelerator fake({.bytes_per_device = 0}); }),
            "memory of a fake device: 1 byte to 8.0 GiB (got 0)");
  EXPECT_EQ(FakeAccelerator({.devices = 16}).device_count(), 16);
}

TEST(FakeDevices, TensorsMayOutliveTheirAccelerator) {
  at::Tensor tensor;
  {
    const FakeAccelerator fake;
    tensor = torch::ones({100}, kFake0);
  }
  EXPECT_THAT(error_of([&] { tensor + 1; }), StartsWith("fake:0: there is no FakeAccelerator now"));
  const FakeAccelerator next({.devices = 2});
  EXPECT_EQ(next.memory(0).live, 0);
  const at::Tensor fresh = torch::zeros({100}, kFake0);
  EXPECT_TRUE(same_bits(tensor, torch::ones({100}))) << "its memory was not given away";
  tensor = at::Tensor();
  EXPECT_EQ(next.memory(0).live, 512);
}

TEST(FakeDevices, ALaterAcceleratorMayHaveMoreDevicesAndBackwardStillRuns) {
  const auto gradient_on = [](c10::Device device) {
    const at::Tensor x = torch::ones({4}, device).requires_grad_();
    (x * 3).sum().backward();
    return x.grad();
  };
  torch::ones({1}).requires_grad_().sum().backward();  // autograd has counted devices by now
  {
    const FakeAccelerator one;
    EXPECT_TRUE(same_bits(gradient_on(kFake0), torch::full({4}, 3.0)));
  }
  const FakeAccelerator many({.devices = 4});
  EXPECT_TRUE(same_bits(gradient_on(FakeAccelerator::device(3)), torch::full({4}, 3.0)));
}

TEST(FakeDevices, AnOldDeviceOrStreamIsNotCurrentAnyMore) {
  {
    const FakeAccelerator fake({.devices = 2});
    fake_guard().setDevice(kFake1);
    fake_guard().exchangeStream(fake_guard().getStreamFromGlobalPool(kFake1));
  }
  const FakeAccelerator fake({.devices = 2});
  EXPECT_EQ(fake_guard().getDevice(), kFake0);
  EXPECT_EQ(fake_guard().getStream(kFake1).id(), 0);
}

TEST(FakeDevices, MixedDevicesAreRefusedWithLibTorchsSentence) {
  const FakeAccelerator fake({.devices = 2});
  const at::Tensor a = torch::randn({4, 4}, kFake0), b = torch::randn({4, 4}, kFake1);
  const at::Tensor host = torch::randn({4, 4});
  const auto refused = HasSubstr(
      "Expected all tensors to be on the same device, but found at least two devices, fake:0 and ");
  at::Tensor out = torch::empty({0}, kFake1);
  EXPECT_THAT(error_of([&] { a + b; }), refused);
  EXPECT_THAT(error_of([&] { a.mm(host); }), refused);
  EXPECT_THAT(error_of([&] { a.add_(host); }), refused);
  EXPECT_THAT(error_of([&] { torch::nn::functional::linear(a, b); }), refused);
  EXPECT_THAT(error_of([&] { at::conv2d(a.view({1, 1, 4, 4}), b.view({1, 1, 4, 4})); }), refused);
  EXPECT_THAT(error_of([&] { at::cat({a, b}); }), refused);
  EXPECT_THAT(error_of([&] { at::where(a > 0, b, a); }), refused);
  EXPECT_THAT(error_of([&] { at::add_out(out, a, a); }),
              HasSubstr("Expected all tensors to be on the same device"));
}

TEST(FakeDevices, WhatCudaTakesFromTheHostIsTaken) {
  const FakeAccelerator fake({.devices = 2});
  const at::Tensor host = torch::arange(16.0).view({4, 4}), a = host.to(kFake0);
  const at::Tensor rows = torch::tensor({1, 2});
  EXPECT_TRUE(same_bits(a + 2.0, host + 2.0));
  EXPECT_TRUE(same_bits(a * torch::tensor(2.0), host * 2.0));
  EXPECT_TRUE(same_bits(a.index({rows}), host.index({rows})));
}

TEST(FakeDevices, SparseTensorsAreRefused) {
  const FakeAccelerator fake;
  const at::Tensor dense = torch::eye(3, kFake0);
  EXPECT_THAT(error_of([&] { dense.to_sparse(); }),
              HasSubstr("fake devices have dense tensors only"));
}

TEST(FakeDevices, TheHookSeesEachOperatorAndMayThrow) {
  FakeAccelerator fake;
  const at::Tensor x = torch::ones({2}, kFake0);
  std::vector<std::string> seen;
  fake.on_operator([&](std::string_view op, c10::Device device) {
    seen.push_back(std::string(op) + " " + device.str());
    if (op == "aten::sub") throw usage_error({.refused = "that"});
  });
  const int64_t before = fake.operators(0);
  (x + 1).mul_(x);
  EXPECT_THAT(seen, ::testing::ElementsAre("aten::add fake:0", "aten::mul_ fake:0"));
  EXPECT_EQ(fake.operators(0) - before, 2);
  EXPECT_EQ(error_of([&] { x - 1; }), "that");
  fake.on_operator({});
  EXPECT_EQ(error_of([&] { x - 1; }), test::kNoError);
}

}  // namespace
}  // namespace muster
