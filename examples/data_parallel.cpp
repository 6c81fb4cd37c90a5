// What it shows: DataParallel, one model on several devices of one process. Each device has a
//     replica and a thread; the loss is computed on each; gradients are averaged while backward
//     runs. The weights are those of one device on the whole batch. With a fake clock, the shares
//     of the batch follow a replica that is three times slower. Here the devices are the CPU, named
//     several times; with GPUs: {at::Device("cuda:0"), at::Device("cuda:1")}.
// How to run: build/bin/examples/data_parallel
// Expected output:
//     2 replicas, 60 steps: loss 0.105, largest difference from one device below 1e-5: yes
//     rows of a batch of 64, the second replica three times slower: 32 + 32 at first
//     after 20 steps: 48 + 16
#include <cstdio>
#include <vector>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include "muster/parallel.h"

namespace mp = muster::parallel;
using torch::nn::Sequential;

// Weights from a seed, so that "one device" below starts alike. DataParallel itself gives all
// replicas the first one's weights.
Sequential make_net() {
  torch::manual_seed(0);
  torch::nn::Linear in(2, 32);
  torch::nn::Linear out(32, 2);
  return Sequential(in, torch::nn::Tanh(), out);
}

torch::optim::Adam make_optimizer(Sequential& net) {
  return torch::optim::Adam(net->parameters(), 0.02);
}

torch::Tensor loss(Sequential& net, const torch::Tensor& x, const torch::Tensor& y) {
  return torch::nn::functional::cross_entropy(net->forward(x), y);
}

// Points in the square, and whether they are on the same side of both axes (XOR).
struct Points {
  torch::Tensor x;  // [1000, 2]
  torch::Tensor y;  // [1000] int64
};

Points points() {
  torch::manual_seed(1);
  const torch::Tensor x = torch::rand({1000, 2}) * 2 - 1;
  return {x, (x.select(1, 0) * x.select(1, 1) > 0).to(torch::kLong)};
}

void train_as_on_one_device(const std::vector<at::Device>& devices) {
  const Points all = points();
  Sequential one = make_net();
  auto one_optimizer = make_optimizer(one);

  mp::DataParallel dp(&make_net, devices);
  auto optimizer = dp.optimizer(&make_optimizer);
  torch::Tensor mean;
  for (int step = 0; step < 60; ++step) {
    one_optimizer.zero_grad();
    loss(one, all.x, all.y).backward();
    one_optimizer.step();

    optimizer.zero_grad();
    mean = dp.backward(all.x, all.y, &loss);  // forward, loss and backward on every replica
    optimizer.step();
  }
  const torch::NoGradGuard no_grad;
  const double farthest = (dp.forward(all.x) - one->forward(all.x)).abs().max().item<double>();
  std::printf(
      "%d replicas, 60 steps: loss %.3f, largest difference from one device below 1e-5: %s\n",
      dp.size(),
      mean.item<double>(),
      farthest < 1e-5 ? "yes" : "no");
}

// Real devices need no clock: their own time is measured.
void shares_by_speed(const std::vector<at::Device>& devices) {
  std::vector<double> now(devices.size(), 0);
  std::vector<Sequential> nets;
  mp::DataParallel dp(
      [&] {
        nets.push_back(make_net());
        return nets.back();
      },
      devices,
      {.shares = mp::SharePolicy::kSpeed, .clock = [&](int replica) { return now[replica]; }});
  const auto slow_loss = [&](Sequential& net, const torch::Tensor& x, const torch::Tensor& y) {
    const bool slow = net.ptr() != nets[0].ptr();
    now[slow ? 1 : 0] += static_cast<double>(x.size(0)) * (slow ? 0.003 : 0.001);
    return loss(net, x, y);
  };
  const Points all = points();
  for (int step = 0; step < 20; ++step) {
    dp.backward(all.x.narrow(0, 0, 64), all.y.narrow(0, 0, 64), slow_loss);
    const std::vector<int64_t>& rows = dp.rows();
    const int first = static_cast<int>(rows[0]), second = static_cast<int>(rows[1]);
    if (step == 0) {
      std::printf(
          "rows of a batch of 64, the second replica three times slower: %d + %d at first\n",
          first,
          second);
    }
    if (step == 19) std::printf("after 20 steps: %d + %d\n", first, second);
  }
}

int main() {
  const std::vector<at::Device> devices{at::kCPU, at::kCPU};
  train_as_on_one_device(devices);
  shares_by_speed(devices);
}
