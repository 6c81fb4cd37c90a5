// What it shows: ZeRO. Three trainings of the same network on the same data end at the same loss;
//     with DistributedDataParallel every rank keeps Adam's whole state and all gradients, with
//     ZeRO-1 each keeps its shard of the state, with ZeRO-2 its shard of the gradients, too.
//     The loop changes in two lines: the optimizer gets zero.shard(), and zero.step(optimizer)
//     takes the place of optimizer.step().
// How to run: build/bin/muster run --nproc-per-node 2 -- build/bin/examples/zero
// Expected output (of rank 0):
//     ddp:   loss 0.1324, Adam's state 1.088 MB, whole gradients 0.544 MB
//     zero1: loss 0.1324, Adam's state 0.544 MB, whole gradients 0.544 MB
//     zero2: loss 0.1324, Adam's state 0.544 MB, whole gradients 0.000 MB
#include <cstdio>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include "muster/parallel.h"

namespace md = muster::distributed;
namespace mp = muster::parallel;

torch::nn::Sequential make_net() {
  torch::manual_seed(0);
  torch::nn::Linear first(8, 256);
  torch::nn::Linear second(256, 512);
  torch::nn::Linear third(512, 4);
  return torch::nn::Sequential(first, torch::nn::Tanh(), second, torch::nn::Tanh(), third);
}

// This rank's half of 64 points // x [32, 8], y [32, 4].
std::pair<torch::Tensor, torch::Tensor> points(const md::ProcessGroup& group) {
  const torch::Tensor grid = torch::linspace(-2, 2, 64 * 8).view({64, 8});
  const torch::Tensor x = grid.slice(0, group.rank(), 64, group.world_size());
  return {x, torch::sin(x.narrow(1, 0, 4) * 2)};
}

double megabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

void report(const char* name, double loss, torch::optim::Adam& adam, torch::nn::Sequential& net) {
  int64_t state = 0, gradients = 0;
  for (const auto& [key, value] : adam.state()) {
    const auto& moments = static_cast<const torch::optim::AdamParamState&>(*value);
    state += static_cast<int64_t>(moments.exp_avg().nbytes() + moments.exp_avg_sq().nbytes());
  }
  for (const torch::Tensor& parameter : net->parameters()) {
    if (parameter.grad().defined()) gradients += static_cast<int64_t>(parameter.grad().nbytes());
  }
  std::printf("%-6s loss %.4f, Adam's state %.3f MB, whole gradients %.3f MB\n",
              name,
              loss,
              megabytes(state),
              megabytes(gradients));
}

// The loss over all ranks' points.
double loss_of(const torch::Tensor& loss, const md::ProcessGroup& group) {
  const torch::Tensor sum = loss.detach().clone();
  group.all_reduce(sum);
  return sum.item<double>() / group.world_size();
}

void train_ddp(const md::ProcessGroup& group) {
  auto net = make_net();
  const auto [x, y] = points(group);
  mp::DistributedDataParallel ddp(net, group);
  torch::optim::Adam adam(net->parameters(), 1e-3);
  torch::Tensor loss;
  for (int step = 0; step < 20; ++step) {
    adam.zero_grad();
    loss = torch::mse_loss(ddp->forward(x), y);
    loss.backward();
    adam.step();
  }
  const double all = loss_of(loss, group);
  if (group.rank() == 0) report("ddp:", all, adam, net);
}

void train_zero(const md::ProcessGroup& group, int stage) {
  auto net = make_net();
  const auto [x, y] = points(group);
  mp::ShardedDataParallel zero(net, group, {.stage = stage});
  torch::optim::Adam adam(zero.shard(), 1e-3);
  torch::Tensor loss;
  for (int step = 0; step < 20; ++step) {
    adam.zero_grad();
    loss = torch::mse_loss(zero->forward(x), y);
    loss.backward();
    zero.step(adam);
  }
  const double all = loss_of(loss, group);
  if (group.rank() == 0) report(stage == 1 ? "zero1:" : "zero2:", all, adam, net);
}

int main() {
  const md::ProcessGroup group = md::init_process_group();
  train_ddp(group);
  train_zero(group, 1);
  train_zero(group, 2);
}
