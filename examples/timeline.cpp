// What it shows: where the time of a step goes. Two thread ranks train with DistributedDataParallel
//     and mark their phases; the flight recorder knows the collectives. The file opens in
//     chrome://tracing and ui.perfetto.dev; the line that says what binds goes to stderr.
// How to run: build/bin/examples/timeline [FILE]
// Expected output:
//     2 ranks, 20 steps, 1 bucket of 9252 bytes in each
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "muster/base.h"
#include "muster/diagnose.h"
#include "muster/parallel.h"

namespace md = muster::distributed;
namespace mp = muster::parallel;

constexpr int kRanks = 2;
constexpr int kSteps = 20;

// What one rank does; its part of the trace.
std::string train(const md::ProcessGroup& group) {
  torch::nn::Linear net(256, 9);
  mp::DistributedDataParallel ddp(net, group);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  muster::diagnose::Timeline timeline(
      {.rank = group.rank(), .recorder = md::flight_recorder(group)});
  for (int step = 0; step < kSteps; ++step) {
    timeline.begin_step(step);
    timeline.begin(muster::diagnose::Phase::kDataWait);
    const torch::Tensor x = torch::ones({64, 256});
    timeline.begin(muster::diagnose::Phase::kForward);  // ends the phase before it
    optimizer.zero_grad();
    const torch::Tensor loss = ddp->forward(x).square().mean();
    timeline.begin(muster::diagnose::Phase::kBackward);
    loss.backward();
    timeline.begin(muster::diagnose::Phase::kOptimizer);
    optimizer.step();
    timeline.end_step();
  }
  return timeline.part();
}

int main(int argc, char** argv) {
  const md::ThreadWorld world(kRanks);
  std::vector<std::string> parts(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        parts[rank] = train(world.group(rank));
        world.leave(rank, "");
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        world.leave(rank, error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  std::vector<muster::diagnose::TimelineSummary> summaries;
  for (const std::string& part : parts)
    summaries.push_back(muster::diagnose::summary_of_part(part));
  const muster::diagnose::TimelineSummary sum = muster::diagnose::sum_of(summaries);
  std::fprintf(stderr, "%s\n", sum.to_text().c_str());
  if (argc > 1) muster::write_file_atomic(argv[1], muster::diagnose::chrome_trace(parts));
  std::printf("%d ranks, %d steps, 1 bucket of %d bytes in each\n",
              static_cast<int>(sum.ranks),
              static_cast<int>(sum.steps / sum.ranks),
              static_cast<int>(sum.bytes / sum.steps));
}
