// What it shows: a training loop with two leaks, a sum of losses that keeps their graphs and a list
//     of predictions, found and explained after 25 iterations; and the same loop without them.
// How to run: build/bin/examples/memory_leak
// Expected output:
//     to be filled in
#include <cstdio>
#include <vector>

#include <torch/torch.h>

#include "muster/memory.h"

namespace memory = muster::memory;

struct Net : torch::nn::Module {
  Net() {
    hidden = register_module("hidden", torch::nn::Linear(64, 256));
    head = register_module("head", torch::nn::Linear(256, 10));
  }
  at::Tensor forward(const at::Tensor& x) { return head(torch::relu(hidden(x))); }

  torch::nn::Linear hidden{nullptr}, head{nullptr};
};

// 30 iterations, and what the finder says of them.
void train(bool leaks) {
  torch::manual_seed(1);
  Net net;
  torch::optim::Adam optimizer(net.parameters(), 1e-3);
  memory::Tracker tracker(net, &optimizer);
  const memory::LeakFinder finder(tracker);

  at::Tensor total = torch::zeros({});
  std::vector<at::Tensor> features;
  for (int iteration = 0; iteration < 30; ++iteration) {
    const at::Tensor batch = torch::randn({512, 64}), labels = torch::randint(10, {512});
    tracker.input(batch);
    optimizer.zero_grad();
    at::Tensor loss;
    {
      const memory::Scope scope("forward");
      loss = torch::cross_entropy_loss(net.forward(batch), labels);
    }
    loss.backward();
    optimizer.step();
    {
      const memory::Scope scope("metrics");
      total = leaks ? total + loss : total + loss.item<double>();
    }
    {
      const memory::Scope scope("features");
      const torch::NoGradGuard no_grad;
      const at::Tensor all = net.hidden(batch);
      features.push_back(leaks ? all.slice(0, 0, 1) : all.slice(0, 0, 1).clone());
    }
    tracker.end_iteration();
  }
  std::printf("%s\n", finder.report().text().c_str());
  if (!leaks) std::printf("%s", memory::text_of(tracker.last(), 2).c_str());
}

int main() {
  train(true);
  train(false);

  at::Tensor big = torch::ones({1000, 1000});
  const at::Tensor view = big.narrow(0, 0, 1);
  std::printf("%s\n", memory::release(big).text().c_str());
}
