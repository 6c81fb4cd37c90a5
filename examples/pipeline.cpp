// What it shows: one model on several devices of one process, first as it is usually written, then
//     as a pipeline. Each device has some of the layers and a thread. With one micro-batch a device
//     idles while the other works; with several both work, and the weights are still those of one
//     device on the whole batch. What the blocks cost is measured; the best of some schedules is
//     taken. Here the devices are the CPU, named twice; with GPUs: {"cuda:0", "cuda:1"}.
// How to run: build/bin/examples/pipeline [FOLDER], where two drawings of real steps will lie
// Expected output:
//     one micro-batch: 0F0 0SEND_F0 0RECV_B0 0B0 0REDUCE_GRAD
//     four of them:    0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0F2 0SEND_F2 0RECV_B1 0B1 0F3 0SEND_F3
//       0RECV_B2 0B2 0RECV_B3 0B3 0REDUCE_GRAD
//     after 40 steps: largest difference from one device below 1e-5: yes
//     a plan for 8 blocks on 2 ranks: 2 stages
#include "muster/pipeline.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "muster/parallel.h"

namespace mp = muster::parallel;
using torch::nn::Sequential;

// Four times a Linear and a ReLU: eight blocks.
Sequential make_net() {
  torch::manual_seed(0);
  Sequential net;
  for (int i = 0; i < 4; ++i) {
    net->push_back(torch::nn::Linear(16, 16));
    net->push_back(torch::nn::ReLU());
  }
  return net;
}

torch::Tensor loss_of(const mp::Tensors& outputs, const mp::Tensors& targets) {
  return torch::nn::functional::mse_loss(outputs[0], targets[0]);
}

mp::Pipeline make_pipeline(const Sequential& net, int64_t micro_batches) {
  return mp::Pipeline(mp::blocks_of(net),
                      {at::kCPU, at::kCPU},
                      &loss_of,
                      {.schedule = "1f1b", .micro_batches = micro_batches, .first_block = {0, 4}});
}

// What rank 0 did, in order.
std::string actions(const mp::PipelineStep& step) {
  std::string text;
  for (const auto& span : step.timeline.ranks[0]) {
    if (text.size() % 80 > 70) text += "\n ";
    text += " " + muster::pipeline::to_text(span.action);
  }
  return text;
}

int main(int argc, char** argv) {
  const torch::Tensor x = torch::randn({32, 16}), y = torch::randn({32, 16});
  Sequential net = make_net();
  mp::Pipeline naive = make_pipeline(net, 1);
  const mp::PipelineStep alone = naive.step({x}, {y});
  mp::Pipeline pipe = make_pipeline(net, 4);
  const mp::PipelineStep together = pipe.step({x}, {y});
  std::printf("one micro-batch:%s\n", actions(alone).c_str());
  std::printf("four of them:   %s\n", actions(together).c_str());
  if (argc > 1) {
    const std::string folder = argv[1];
    std::ofstream(folder + "/naive.svg") << gantt_svg(alone.timeline, {.title = "One micro-batch"});
    std::ofstream(folder + "/pipeline.svg")
        << gantt_svg(together.timeline, {.title = "Four micro-batches"});
  }

  Sequential one_device = make_net();
  torch::optim::SGD whole(one_device->parameters(), 0.1), cut(pipe.parameters(), 0.1);
  for (int i = 0; i < 40; ++i) {
    const torch::Tensor inputs = torch::randn({30, 16}), targets = inputs.roll(1, 1);
    whole.zero_grad();
    loss_of({one_device->forward(inputs)}, {targets}).backward();
    whole.step();
    pipe.zero_grad();
    pipe.step({inputs}, {targets});
    cut.step();
  }
  float difference = 0;
  for (size_t i = 0; i < net->parameters().size(); ++i)
    difference = std::max(
        difference, (net->parameters()[i] - one_device->parameters()[i]).abs().max().item<float>());
  std::printf("after 40 steps: largest difference from one device below 1e-5: %s\n",
              difference < 1e-5F ? "yes" : "no");

  const auto blocks_for = [&](int64_t micro_batches) {
    return mp::measure_blocks(
        mp::blocks_of(net), mp::cut_batch({x}, {y}, micro_batches).front(), &loss_of, at::kCPU);
  };
  const auto plan = muster::pipeline::choose_plan(
      blocks_for, {.ranks = 2, .schedules = {"1f1b", "zb1p"}, .micro_batches = {2, 4, 8}});
  std::printf("a plan for 8 blocks on 2 ranks: %zu stages\n",
              plan ? plan->stages.size() : size_t{0});
}
