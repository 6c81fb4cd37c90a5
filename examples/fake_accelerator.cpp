// What it shows: tests of device code on a machine without a device. A model trains on fake:0 with
//     the CPU's numbers, runs out of a memory of 64 KiB, loses an allocation, and forgets to wait
//     for a stream and for a copy; each is found.
// How to run: build/bin/examples/fake_accelerator
// Expected output:
//     trained on fake:0 as on the CPU: yes
//     64 KiB are not enough: fake out of memory
//     the 3rd allocation fails in forward; afterwards as many bytes are live: yes
//     aten::mul on stream 1 of fake:0 reads memory that aten::fill_ on stream 0 of fake:0 writes, and nothing waits for that
//     with an event: 0 races
//     a copy to pinned memory reads nan before its event, and 2 after it
#include <cstdio>
#include <string>

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include "muster/testing.h"

using muster::testing::FakeAccelerator;
using muster::testing::FakeRace;
using muster::testing::Races;

const char* yes(bool is_true) { return is_true ? "yes" : "no"; }

// The weights after three steps.
at::Tensor trained_on(c10::Device device) {
  torch::manual_seed(1);
  torch::nn::Linear net(32, 16);
  net->to(device);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const at::Tensor x = torch::linspace(-1, 1, 64 * 32).view({64, 32}).to(device);
    net->forward(x).pow(2).mean().backward();
    optimizer.step();
  }
  return net->weight.detach().cpu();
}

void numbers_and_memory() {
  FakeAccelerator fake({.devices = 2, .bytes_per_device = 64 << 20});
  std::printf("trained on fake:0 as on the CPU: %s\n",
              yes(trained_on(FakeAccelerator::device(0)).equal(trained_on(torch::kCPU))));

  fake.set_capacity(0, 64 << 10);
  try {
    torch::ones({100, 1000}, FakeAccelerator::device(0));
  } catch (const c10::OutOfMemoryError& error) {
    const std::string why = error.what_without_backtrace();
    std::printf("64 KiB are not enough: %s\n", why.substr(0, why.find('.')).c_str());
  }

  fake.set_capacity(0, 64 << 20);
  const at::Tensor x = torch::ones({10}, FakeAccelerator::device(0));
  const int64_t live = fake.memory(0).live;
  fake.fail_allocation(0, 3);
  try {
    x.mul(2).add(1).sub(x).sum();
  } catch (const c10::OutOfMemoryError&) {
    std::printf("the 3rd allocation fails in forward; afterwards as many bytes are live: %s\n",
                yes(fake.memory(0).live == live));
  }
}

void streams() {
  FakeAccelerator fake({.races = Races::kCollect});
  const c10::Device device = FakeAccelerator::device(0);
  const c10::impl::VirtualGuardImpl streams(device.type());
  const c10::Stream main = streams.getStream(device);
  const c10::Stream side = streams.getStreamFromGlobalPool(device);

  const at::Tensor x = torch::ones({1000}, device);
  {
    const c10::StreamGuard guard(side);
    const at::Tensor y = x * 2;  // nothing says that x is there
  }
  for (const FakeRace& race : fake.take_races()) std::printf("%s\n", race.text().c_str());

  c10::Event event(device.type());
  event.record(main);
  event.block(side);
  {
    const c10::StreamGuard guard(side);
    const at::Tensor y = x * 2;
  }
  std::printf("with an event: %zu races\n", fake.take_races().size());

  const at::Tensor host = torch::empty({1000}, at::TensorOptions().pinned_memory(true));
  host.copy_(x.mul(2), /*non_blocking=*/true);
  const float before = host[0].item<float>();
  event.record(main);
  event.synchronize();
  std::printf("a copy to pinned memory reads %g before its event, and %g after it\n",
              std::abs(before),
              host[0].item<float>());
}

int main() {
  numbers_and_memory();
  streams();  // an accelerator of its own, after the first
}
