// A rank in the tests of groups between processes: `muster_shm_rank MODE BACKEND`.
//     sum        all-reduces for ever, "ready" after the first; prints the error that ends it
//     ddp        trains a small model for three steps and prints its parameters' bits
//     SCHEDULE   trains a pipeline of two ranks, with replicas if there are more, for ever; as sum
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include <signal.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "muster/distributed/device_mesh.h"
#include "muster/parallel/ddp/ddp.h"
#include "muster/parallel/pipeline_ranks/distributed_pipeline.h"

namespace md = muster::distributed;
namespace mp = muster::parallel;

namespace {

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

/// Small and large sums in turn, so that a blow falls on every part of an operation.
void sum_for_ever(const md::ProcessGroup& group) {
  torch::Tensor small = torch::zeros({16}), large = torch::zeros({400'000});
  for (int64_t i = 0;; ++i) {
    group.all_reduce(i % 2 == 0 ? small : large);
    if (i == 0) say("ready");
  }
}

void train(const md::ProcessGroup& group) {
  torch::manual_seed(group.rank());  // all take rank 0's weights
  torch::nn::Linear layer(300, 40);
  mp::DistributedDataParallel ddp(layer, group);
  torch::optim::SGD optimizer(layer->parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    torch::manual_seed(100 * step + group.rank());
    ddp->forward(torch::randn({8, 300})).pow(2).mean().backward();
    optimizer.step();
  }
  uint64_t bits = 0;
  for (const torch::Tensor& parameter : layer->parameters()) {
    const torch::Tensor words = parameter.detach().contiguous().view(torch::kInt).view(-1);
    for (int64_t i = 0; i < words.numel(); ++i)
      bits = bits * 1099511628211ULL + uint64_t(uint32_t(words.data_ptr<int32_t>()[i]));
  }
  say("parameters " + std::to_string(bits));
}

void pipe_for_ever(const md::ProcessGroup& world, const std::string& schedule) {
  const md::DeviceMesh mesh(world, {{"data", -1}, {"pipeline", 2}});
  torch::manual_seed(0);
  torch::nn::Sequential net;
  for (int i = 0; i < 8; ++i) net->push_back(torch::nn::Linear(64, 64));
  const bool chunks = schedule == "interleaved" || schedule == "zbv";
  using Cuts = muster::pipeline::Split;
  mp::DistributedPipeline pipe(
      mp::blocks_of(net),
      mesh,
      [](const mp::Tensors& outputs, const mp::Tensors&) { return outputs[0].pow(2).mean(); },
      {.schedule = schedule,
       .micro_batches = 4,
       .first_block = chunks ? Cuts{0, 2, 4, 6} : Cuts{0, 4}});
  torch::optim::SGD optimizer(pipe.parameters(), 0.1);
  const torch::Tensor x = torch::randn({256, 64});
  for (int64_t i = 0;; ++i) {
    optimizer.zero_grad();
    pipe.step({x}, {});
    optimizer.step();
    if (i == 0) say("ready");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 99;
  // The launcher ends the others as soon as one is dead; these are to tell first what they saw.
  ::signal(SIGTERM, SIG_IGN);
  try {
    const auto group =
        md::init_process_group({.backend = argv[2], .timeout = std::chrono::seconds(30)});
    const std::string mode = argv[1];
    if (mode == "sum") sum_for_ever(group);
    if (mode != "ddp") pipe_for_ever(group, mode);
    train(group);
    group.barrier();
  } catch (const std::exception& error) {
    say("saw: " + std::string(error.what()));
    return 1;
  }
  return 0;
}
