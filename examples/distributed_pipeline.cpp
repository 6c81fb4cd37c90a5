// What it shows: one model on four processes, as two pipelines of two stages each that train on
//     halves of a batch. Each rank keeps its own layers; activations and gradients travel over the
//     group, and the two ranks that have the same layers average their gradients as soon as these
//     are whole. The weights are those of one process on the whole batch.
// How to run: muster run --nproc-per-node 4 -- build/bin/examples/distributed_pipeline
// Expected output:
//     data 2 x pipeline 2, 1f1b of 4 micro-batches over shm
//     rank 0 has 312 of 676 parameters; its first actions: 0F0 0SEND_F0 0F1 0SEND_F1
//     after 40 steps: largest difference from one process below 1e-5: yes
#include <algorithm>
#include <cstdio>
#include <string>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "muster/parallel.h"

namespace md = muster::distributed;
namespace mp = muster::parallel;
using torch::nn::Sequential;

constexpr int64_t kRows = 32, kWidth = 12;

// Eight blocks, alike on every rank.
Sequential make_net() {
  torch::manual_seed(0);
  Sequential net;
  for (int i = 0; i < 4; ++i) {
    net->push_back(torch::nn::Linear(kWidth, i == 3 ? 16 : kWidth));
    net->push_back(torch::nn::ReLU());
  }
  return net;
}

torch::Tensor loss_of(const mp::Tensors& outputs, const mp::Tensors& targets) {
  return torch::nn::functional::mse_loss(outputs[0], targets[0]);
}

// What training it on one process makes of it.
Sequential trained_alone(const torch::Tensor& x, const torch::Tensor& y) {
  Sequential net = make_net();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (int i = 0; i < 40; ++i) {
    optimizer.zero_grad();
    loss_of({net->forward(x)}, {y}).backward();
    optimizer.step();
  }
  return net;
}

int64_t count(const std::vector<torch::Tensor>& parameters) {
  int64_t numbers = 0;
  for (const torch::Tensor& parameter : parameters) numbers += parameter.numel();
  return numbers;
}

int main() {
  const md::ProcessGroup world = md::init_process_group();
  const md::DeviceMesh mesh(world, {{"data", -1}, {"pipeline", 2}});
  torch::manual_seed(1);
  const torch::Tensor x = torch::randn({kRows, kWidth}), y = torch::randn({kRows, 16});
  Sequential net = make_net();
  mp::DistributedPipeline pipe(mp::blocks_of(net),
                               mesh,
                               &loss_of,
                               {.schedule = "1f1b", .micro_batches = 4, .first_block = {0, 4}});
  // The rows of this rank's pipeline.
  const int64_t rows = kRows / mesh.size("data"), first = mesh.coordinate("data") * rows;
  const torch::Tensor inputs = x.narrow(0, first, rows), targets = y.narrow(0, first, rows);
  torch::optim::SGD optimizer(pipe.parameters(), 0.1);
  mp::PipelineStep step;
  for (int i = 0; i < 40; ++i) {
    pipe.zero_grad();
    step = pipe.step({inputs}, {targets});
    optimizer.step();
  }

  pipe.gather_model();  // rank 0 of each pipeline gets the other's layers
  if (world.rank() != 0) return 0;
  std::printf("data %ld x pipeline %ld, 1f1b of 4 micro-batches over %s\n",
              long(mesh.size("data")),
              long(mesh.size("pipeline")),
              world.backend().c_str());
  std::string actions;
  for (size_t i = 0; i < 4; ++i)
    actions += " " + muster::pipeline::to_text(step.timeline.ranks[0][i].action);
  std::printf("rank 0 has %ld of %ld parameters; its first actions:%s\n",
              long(count(pipe.parameters())),
              long(count(net->parameters())),
              actions.c_str());
  const Sequential alone = trained_alone(x, y);
  double largest = 0;
  for (size_t i = 0; i < net->parameters().size(); ++i)
    largest = std::max(largest,
                       (net->parameters()[i] - alone->parameters()[i]).abs().max().item<double>());
  std::printf("after 40 steps: largest difference from one process below 1e-5: %s\n",
              largest < 1e-5 ? "yes" : "no");
}
