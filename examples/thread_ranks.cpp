// What it shows: ranks as threads of one process, with nothing to launch. Each thread trains a copy
//     of a model on its share of the samples. DistributedDataParallel keeps the copies equal,
//     by the same code as between processes.
// How to run: build/bin/examples/thread_ranks
// Expected output:
//     2 ranks fit the line y = 3 x - 2: slope 3.000, intercept -2.000
//     all copies equal: yes
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "muster/parallel.h"

namespace md = muster::distributed;
namespace mp = muster::parallel;

constexpr int kRanks = 2;

// What one rank does. Weights end up in `result` // [1, 2] float32: slope, intercept.
void train(const md::ProcessGroup& group, torch::Tensor& result) {
  torch::nn::Linear line(1, 1);  // each thread draws other weights; all take rank 0's
  mp::DistributedDataParallel ddp(line, group);
  torch::optim::SGD optimizer(line->parameters(), 0.5);

  const torch::Tensor points = torch::linspace(-1, 1, 64).unsqueeze(1);
  const torch::Tensor x = points.slice(0, group.rank(), 64, group.world_size());  // [32, 1]
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    torch::mse_loss(ddp->forward(x), 3 * x - 2).backward();
    optimizer.step();
  }
  result = torch::cat({line->weight, line->bias.unsqueeze(1)}, 1).detach();
}

int main() {
  const md::ThreadWorld world(kRanks);
  std::vector<torch::Tensor> results(kRanks);
  std::vector<std::exception_ptr> errors(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        train(world.group(rank), results[rank]);
        world.leave(rank, "");
      } catch (const std::exception& error) {
        errors[rank] = std::current_exception();
        world.leave(rank, error.what());  // who waits for this rank is told why
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }

  const torch::Tensor& line = results[0];
  std::printf("%d ranks fit the line y = 3 x - 2: slope %.3f, intercept %.3f\n",
              kRanks,
              line[0][0].item<double>(),
              line[0][1].item<double>());
  std::printf("all copies equal: %s\n", torch::equal(results[0], results[1]) ? "yes" : "no");
}
