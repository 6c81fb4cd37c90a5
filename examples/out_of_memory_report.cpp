// What it shows: a training that runs out of memory says why: memory::explain() knows who held the
//     bytes at the moment of the failure, which kind of cause it is, and what to do.
// How to run: build/bin/examples/out_of_memory_report
// Expected output:
//     live tensors: tensors hold 806 KiB of the 1.0 MiB; 38 KiB were missing; activations, their
//     gradients and inputs are 64 % of it
//     to do: smaller-batch
//     256 KiB: activation, made by aten::relu in forward
//     256 KiB: gradient, made by AddmmBackward0 in forward
//     147 KiB: optimizer state, made by aten::zeros_like in optimizer
#include <cstdio>
#include <exception>

#include <torch/torch.h>

#include "muster/base.h"
#include "muster/memory.h"
#include "muster/testing.h"

namespace memory = muster::memory;
using muster::testing::FakeAccelerator;

struct Net : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(64, 256));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(256, 8));
  at::Tensor forward(const at::Tensor& x) { return out(torch::relu(in(x))); }
};

void step(Net& net, torch::optim::Adam& adam, int64_t rows) {
  const at::Tensor x = torch::ones({rows, 64}, net.in->weight.device());
  adam.zero_grad();
  at::Tensor loss;
  {
    const memory::Scope scope("forward");
    loss = net.forward(x).square().mean();
  }
  loss.backward();
  const memory::Scope scope("optimizer");
  adam.step();
}

int main() {
  const memory::Recording recording(
      memory::Level::kTags);  // operators by name; not needed for scopes
  FakeAccelerator fake({.bytes_per_device = 1 << 20});
  const c10::Device device = FakeAccelerator::device(0);
  Net net;
  net.to(device);
  torch::optim::Adam adam(net.parameters());
  const memory::OomWatch watch;
  try {
    for (int64_t rows = 64; rows < 1 << 20; rows *= 2) step(net, adam, rows);
  } catch (const std::exception& error) {
    if (!memory::is_oom(error)) throw;
    const memory::OomReport report = memory::explain(
        std::current_exception(), device, {.owned = memory::owned_tensors(net, &adam)});
    std::printf("%s\n", muster::wrap(report.headline(), 90).c_str());  // text() has it all
    std::printf("to do: %s\n", action_name(report.cause.action).data());
    for (size_t i = 0; i < 3; ++i) {
      const memory::Holder& holder = report.facts.holders[i];
      std::printf("%ld KiB: %s, made by %s in %s\n",
                  static_cast<long>(holder.bytes >> 10),
                  memory::owner_text(holder.owner).c_str(),
                  holder.op.c_str(),
                  holder.scope.c_str());
    }
  }
  return 0;
}
