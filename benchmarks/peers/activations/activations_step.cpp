// Training steps of encoder layers, with and without activation checkpointing: the C++ side of
// benchmarks/peers/activations.
//
//     activations_step off|blocks LAYERS WIDTH BATCH TOKENS STEPS
//
// One line of JSON: {"seconds": [of each step], "loss": of the last, "peak_mib": of the process
// above what it had before the first step, "threads": ATen's}.
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include "muster/base/json.h"
#include "muster/models/zoo/transformer.h"
#include "muster/parallel/activations/checkpointed.h"

#include "benchmarks/peers/process_status.h"

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const bool again = std::string(argv[1]) == "blocks";
  const auto number = [&](int i) { return std::stoll(argv[i]); };
  torch::manual_seed(1);
  std::vector<muster::models::EncoderLayer> layers;
  std::vector<at::Tensor> parameters;
  for (int64_t i = 0; i < number(2); ++i) {
    layers.emplace_back(number(3), 4, 4 * number(3), 0.0);
    for (const at::Tensor& parameter : layers.back()->parameters()) parameters.push_back(parameter);
  }
  torch::optim::SGD optimizer(parameters, 0.01);
  const at::Tensor input = at::randn({number(4), number(5), number(3)});
  const double before = status_mib("VmRSS");
  muster::Json answer{{"seconds", std::vector<double>()}, {"threads", at::get_num_threads()}};
  for (int64_t step = 0; step < number(6); ++step) {
    const auto start = std::chrono::steady_clock::now();
    optimizer.zero_grad();
    at::Tensor x = input;
    for (auto& layer : layers)
      x = again ? muster::parallel::checkpointed(layer, x) : layer->forward(x);
    const at::Tensor loss = x.square().mean();
    loss.backward();
    optimizer.step();
    answer["loss"] = loss.item<double>();
    answer["seconds"].push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  answer["peak_mib"] = status_mib("VmHWM") - before;
  std::cout << answer.dump() << "\n";
}
