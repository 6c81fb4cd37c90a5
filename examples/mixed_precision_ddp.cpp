// What it shows: mixed precision on several ranks. Forward runs in float16 under AutocastGuard, the
//     loss is scaled by GradScaler. It starts far too high: gradients overflow, all ranks leave out
//     the same steps, and the scale falls until it fits. The ranks' shares of a batch are uneven,
//     and the batch normalisation and the gradient are still those of the whole batch.
// How to run: build/bin/examples/mixed_precision_ddp
// Expected output:
//     steps left out because of overflow: the same on both ranks, at least one
//     scale: from 2^30 to 2^24 or below
//     accuracy 1.00, all copies equal: yes
#include <cmath>
#include <cstdio>
#include <exception>
#include <thread>
#include <vector>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "muster/parallel.h"

namespace md = muster::distributed;
namespace mp = muster::parallel;

constexpr int kRanks = 2;
constexpr int64_t kRows[kRanks] = {40, 24};  // of each rank

torch::nn::Sequential make_model() {
  torch::nn::Sequential net;
  net->push_back(torch::nn::Linear(2, 16));
  net->push_back(torch::nn::BatchNorm1d(16));
  net->push_back(torch::nn::ReLU());
  net->push_back(torch::nn::Linear(16, 2));
  return net;
}

struct Result {
  torch::Tensor weights;  // all parameters, one row
  int64_t skipped = 0;
  double scale = 0, accuracy = 0;
};

// What one rank does. The points are in two classes: inside and outside of a circle.
Result train(torch::nn::Sequential net, const md::ProcessGroup& group) {
  mp::convert_sync_batchnorm(*net, group);
  mp::DistributedDataParallel ddp(net, group);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
  mp::GradScaler scaler({.init_scale = std::pow(2.0, 30)}, group);

  const torch::Tensor angle = torch::arange(64) * 0.7, radius = 0.5 + torch::arange(64) % 2;
  const torch::Tensor points = torch::stack({radius * angle.cos(), radius * angle.sin()}, 1);
  const int64_t from = group.rank() == 0 ? 0 : kRows[0], rows = kRows[group.rank()];
  const torch::Tensor x = points.narrow(0, from, rows);                   // [rows, 2]
  const torch::Tensor y = (torch::arange(64) % 2).narrow(0, from, rows);  // [rows] int64

  for (int step = 0; step < 150; ++step) {
    optimizer.zero_grad();
    torch::Tensor loss;
    {
      const mp::AutocastGuard autocast(torch::kCPU, {.dtype = torch::kHalf});
      loss = ddp.weigh(torch::nn::functional::cross_entropy(ddp->forward(x), y), rows);
    }
    scaler.scale(loss).backward();
    scaler.step(optimizer);  // not if a gradient of any rank is infinite
    scaler.update();
  }
  net->eval();
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> all;
  for (const auto& parameter : net->parameters()) all.push_back(parameter.reshape(-1));
  return {torch::cat(all),
          scaler.skipped_steps(),
          scaler.scale(),
          net->forward(points)
              .argmax(1)
              .eq(torch::arange(64) % 2)
              .to(torch::kFloat)
              .mean()
              .item<double>()};
}

int main() {
  const md::ThreadWorld world(kRanks);
  torch::manual_seed(1);
  std::vector<torch::nn::Sequential> nets;
  for (int rank = 0; rank < kRanks; ++rank) nets.push_back(make_model());
  std::vector<Result> results(kRanks);
  std::vector<std::exception_ptr> errors(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        results[rank] = train(nets[rank], world.group(rank));
        world.leave(rank, "");
      } catch (const std::exception& error) {
        errors[rank] = std::current_exception();
        world.leave(rank, error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  const bool agreed = results[0].skipped == results[1].skipped && results[0].skipped > 0;
  std::printf("steps left out because of overflow: %s\n",
              agreed ? "the same on both ranks, at least one" : "not the same");
  std::printf("scale: from 2^30 to %s\n", results[0].scale <= 0x1p24 ? "2^24 or below" : "more");
  std::printf("accuracy %.2f, all copies equal: %s\n",
              results[0].accuracy,
              torch::equal(results[0].weights, results[1].weights) ? "yes" : "no");
}
