// What it shows: a training step that does not fit into the memory of its device is made again in
//     smaller micro-batches by memory::Guard, to the gradients of the whole batch; and
//     memory::find_batch_size finds the batch that does fit from a few measured steps.
// How to run: build/bin/examples/out_of_memory
// Expected output:
//     256 samples at a time do not fit: again, 128 at a time
//     128 samples at a time do not fit: again, 64 at a time
//     made in 4 micro-batches, to the same gradients: yes
//     the next step takes 1 attempt
//     batch 179 of at most 100000: 5 probes of 1, 2, 88, 149, 179; 599 KiB + 3.2 KiB a sample; 184 is the most
#include <cstdio>

#include <torch/torch.h>

#include "muster/memory.h"
#include "muster/testing.h"

namespace memory = muster::memory;
using muster::testing::FakeAccelerator;

const char* yes(bool is_true) { return is_true ? "yes" : "no"; }

struct Net : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(64, 256));
  torch::nn::Linear middle = register_module("middle", torch::nn::Linear(256, 256));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(256, 8));
  at::Tensor forward(const at::Tensor& x) { return out(torch::relu(middle(torch::relu(in(x))))); }
};

int64_t held_by_forward = 0;  // bytes on the device when the last forward was over

// A step of that many rows, by the guard if there is one. Returns whether it fitted at once.
bool fits(Net& net, int64_t rows, memory::Guard* guard, int64_t* micro_batches = nullptr) {
  const c10::Device device = net.in->weight.device();
  const at::Tensor x = torch::linspace(-1, 1, rows * 64).view({rows, 64}).to(device);
  const at::Tensor y = torch::arange(rows).remainder(8).to(device);
  net.zero_grad();
  const auto pass = [&](const memory::MicroBatch& part) {
    const at::Tensor loss = torch::cross_entropy_loss(net.forward(part.of(x)), part.of(y));
    held_by_forward = memory::device_counters(device).current;
    (loss * part.weight).backward();
  };
  if (guard != nullptr) {
    const memory::GuardedStep made = guard->step(rows, pass);
    if (micro_batches != nullptr) *micro_batches = made.micro_batches;
    return made.attempts == 1;
  }
  try {
    pass({.end = rows});
    return true;
  } catch (const std::exception& error) {
    if (!memory::is_oom(error)) throw;
    return false;
  }
}

int main() {
  FakeAccelerator fake;
  const c10::Device device = FakeAccelerator::device(0);
  torch::manual_seed(1);
  const auto net = std::make_shared<Net>();
  net->to(device);
  fits(*net, 256, nullptr);
  const at::Tensor whole = net->in->weight.grad().cpu();

  fake.set_capacity(0, 1200 << 10);  // less than the step of 256 samples takes
  memory::GuardOptions options;
  options.heard = [](const memory::GuardEvent& event) {
    std::printf("%ld samples at a time do not fit: again, %ld at a time\n",
                static_cast<long>(event.tried),
                static_cast<long>(event.micro_batch));
  };
  memory::Guard guard(*net, options);
  int64_t micro_batches = 0;
  fits(*net, 256, &guard, &micro_batches);
  const double apart = (net->in->weight.grad().cpu() - whole).abs().max().item<double>();
  std::printf("made in %ld micro-batches, to the same gradients: %s\n",
              static_cast<long>(micro_batches),
              yes(apart < 1e-6 * whole.abs().max().item<double>()));
  std::printf("the next step takes %d attempt\n", fits(*net, 256, &guard) ? 1 : 2);

  int64_t most = 0;  // by trying each
  for (int64_t rows = 1; fits(*net, rows, nullptr); ++rows) most = rows;
  const memory::BatchLimits limits{.bytes = 1200 << 10, .most = 100'000};
  const memory::BatchFound found = memory::find_batch_size(limits, [&](int64_t rows) {
    memory::reset_device_peak(device);
    const bool has_room = fits(*net, rows, nullptr);
    return memory::BatchProbe{.batch = rows,
                              .fits = has_room,
                              .bytes = static_cast<double>(memory::device_counters(device).peak),
                              .forward = static_cast<double>(held_by_forward)};
  });
  std::printf("%s; %ld is the most\n", text_of(found, limits).c_str(), static_cast<long>(most));
  return 0;
}
