// Training steps of eight Linear layers of 1024, on one core and as a pipeline of two stages: the C++
// side of benchmarks/peers/pipeline.
//
//     pipeline_step SCHEDULE MICRO_BATCHES BATCH STEPS
//     muster run --nproc-per-node 2 --no-prefix -- pipeline_step …   a process for each stage
//
// On one core and with two threads the two take turns; a process is started by itself. One line of JSON: {"one_core": [seconds of each step], "pipeline": […],
// "busy": [what the busier rank computed in each], "loss": of the last step}.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include "muster/base/json.h"
#include "muster/parallel/pipeline/pipeline.h"
#include "muster/parallel/pipeline_ranks/distributed_pipeline.h"
#include "muster/tensor/intraop_threads.h"

namespace mp = muster::parallel;

namespace {

constexpr int kLayers = 8, kWidth = 1024;
using Clock = std::chrono::steady_clock;

torch::nn::Sequential make_net() {
  torch::manual_seed(1);
  torch::nn::Sequential net;
  for (int i = 0; i < kLayers; ++i) {
    net->push_back(torch::nn::Linear(kWidth, kWidth));
    net->push_back(torch::nn::ReLU());
  }
  return net;
}

template <class Step>
double timed(Step&& step) {
  const auto start = Clock::now();
  step();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

at::Tensor loss_of(const mp::Tensors& out, const mp::Tensors& target) {
  return at::mse_loss(out[0], target[0]);
}

/// As one rank of two.
int run_rank(const std::string& schedule,
             const muster::pipeline::Split& first_block,
             int64_t micro_batches,
             int64_t batch,
             int64_t steps) {
  const auto group = muster::distributed::init_process_group();
  torch::nn::Sequential net = make_net();
  mp::DistributedPipeline pipe(
      mp::blocks_of(net),
      group,
      &loss_of,
      {.schedule = schedule, .micro_batches = micro_batches, .first_block = first_block});
  torch::optim::SGD optimizer(pipe.parameters(), 0.01);
  const at::Tensor x = at::randn({batch, kWidth}), y = at::randn({batch, kWidth});
  muster::Json seconds = muster::Json::array();
  double loss = 0;
  for (int64_t i = 0; i < steps; ++i) {
    group.barrier();
    seconds.push_back(timed([&] {
      optimizer.zero_grad();
      loss = pipe.step({x}, {y}).loss.item<double>();
      optimizer.step();
    }));
  }
  if (group.rank() == 0) std::cout << muster::Json{{"pipeline", seconds}, {"loss", loss}} << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const auto number = [&](int i) { return std::stoll(argv[i]); };
  muster::tensor::set_own_intraop_threads(1);
  const std::string schedule = argv[1];
  const bool has_virtual_stages = schedule == "interleaved" || schedule == "zbv";
  using muster::pipeline::Split;
  const Split first_block = has_virtual_stages ? Split{0, 4, 8, 12} : Split{0, 8};
  if (std::getenv("WORLD_SIZE") != nullptr)
    return run_rank(schedule, first_block, number(2), number(3), number(4));
  torch::nn::Sequential whole = make_net(), cut = make_net();
  mp::Pipeline pipe(mp::blocks_of(cut),
                    {c10::kCPU, c10::kCPU},
                    &loss_of,
                    {.schedule = schedule,
                     .micro_batches = number(2),
                     .first_block = first_block,
                     .threads_per_rank = 1});
  torch::optim::SGD one(whole->parameters(), 0.01), two(pipe.parameters(), 0.01);
  const at::Tensor x = at::randn({number(3), kWidth}), y = at::randn({number(3), kWidth});
  muster::Json one_core = muster::Json::array(), pipeline = one_core, busy = one_core;
  double loss = 0;
  for (int64_t i = 0; i < number(4); ++i) {
    one_core.push_back(timed([&] {
      one.zero_grad();
      at::mse_loss(whole->forward(x), y).backward();
      one.step();
    }));
    mp::PipelineStep step;
    pipeline.push_back(timed([&] {
      two.zero_grad();
      step = pipe.step({x}, {y});
      two.step();
    }));
    busy.push_back(std::max(step.timeline.busy_s(0), step.timeline.busy_s(1)));
    loss = step.loss.item<double>();
  }
  std::cout << muster::Json{{"one_core", one_core},
                            {"pipeline", pipeline},
                            {"busy", busy},
                            {"loss", loss}}
            << '\n';
}
