// What it shows: weights in shards (ZeRO's stage 3, FSDP). A module of one's own says by
//     tensor::call_unit() where its units are; between steps each rank keeps its part of weights,
//     gradients and Adam's state alone. Numbers are stage 2's, where each rank has all weights.
// How to run: build/bin/muster run --nproc-per-node 2 -- build/bin/examples/fsdp
// Expected output (of rank 0):
//     zero2: loss 0.1583, weights on this rank 1.856 MB of 1.856 MB
//     fsdp:  loss 0.1583, weights on this rank 0.928 MB of 1.856 MB
//     gathered on rank 0: 18 tensors, 1.856 MB
#include <cstdio>
#include <string>
#include <vector>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include "muster/parallel.h"
#include "muster/tensor.h"

namespace md = muster::distributed;
namespace mp = muster::parallel;
namespace mt = muster::tensor;

constexpr int64_t kWidth = 256;

// Members of any type, called by name. Without shards this is layers[i]->forward(x).
struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(8, kWidth));
    for (int i = 0; i < 7; ++i)
      layers.emplace_back(register_module(name(i), torch::nn::Linear(kWidth, kWidth)));
    last = register_module("last", torch::nn::Linear(kWidth, 4));
  }
  static std::string name(int i) { return "layer" + std::to_string(i); }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::tanh(first->forward(x));  // no unit: there from forward to the end of backward
    for (int i = 0; i < 7; ++i) x = torch::tanh(mt::call_unit(name(i), layers[i], x));
    return last->forward(x);
  }

  torch::nn::Linear first{nullptr}, last{nullptr};
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(Net);

double megabytes(const std::vector<torch::Tensor>& tensors) {
  double bytes = 0;
  for (const torch::Tensor& tensor : tensors) bytes += static_cast<double>(tensor.nbytes());
  return bytes / 1e6;
}

void train(const md::ProcessGroup& group, int stage) {
  torch::manual_seed(0);
  Net net;
  const double all = megabytes(net->parameters());
  mp::ZeroOptions options{.stage = stage};
  for (int i = 0; stage == 3 && i < 7; ++i) options.units.push_back({NetImpl::name(i)});
  mp::ShardedDataParallel zero(net, group, options);
  torch::optim::Adam adam(zero.shard(), 1e-3);

  const torch::Tensor grid = torch::linspace(-2, 2, 512).view({64, 8});
  const torch::Tensor x = grid.slice(0, group.rank(), 64, group.world_size());
  const torch::Tensor y = torch::sin(x.narrow(1, 0, 4) * 2);
  torch::Tensor loss;
  for (int step = 0; step < 20; ++step) {
    adam.zero_grad();
    loss = torch::mse_loss(zero->forward(x), y);
    loss.backward();
    zero.step(adam);
  }

  const torch::Tensor sum = loss.detach().clone();
  group.all_reduce(sum);
  const double kept = stage == 3 ? megabytes(zero.shard()) : all;
  const auto weights = zero.gather_weights();  // what a checkpoint of the model holds
  if (group.rank() != 0) return;
  std::printf("%-6s loss %.4f, weights on this rank %.3f MB of %.3f MB\n",
              stage == 3 ? "fsdp:" : "zero2:",
              sum.item<double>() / group.world_size(),
              kept,
              all);
  if (stage < 3) return;
  std::printf("gathered on rank 0: %zu tensors, %.3f MB\n",
              weights.size(),
              megabytes(mp::tensors_of(weights)));
}

int main() {
  const md::ProcessGroup group = md::init_process_group();
  train(group, 2);
  train(group, 3);
}
