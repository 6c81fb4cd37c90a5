// Trains small models by muster::parallel::DistributedDataParallel as ddp_twin.py does by Python's.
//
//     muster run --nproc-per-node 2 -- ddp_twin SPECS.json OUT_FOLDER
//
// SPECS.json is a list; see the fields in `train`. Rank r writes losses, parameters and buffers to
// OUT_FOLDER/rank<r>.json. test_ddp_live.py compares the two. Statements come in the order of the
// Python twin: draws of initial weights depend on it.
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/relu.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/parallel/ddp/ddp.h"

namespace {

using muster::Json;

struct Net : torch::nn::Module {
  explicit Net(const Json& spec) {
    const auto widths = spec.at("widths").get<std::vector<int64_t>>();
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      layers.push_back(
          register_module(muster::concat("fc", i), torch::nn::Linear(widths[i], widths[i + 1])));
      if (spec.at("batch_norm") && i + 2 < widths.size()) {
        norms.push_back(
            register_module(muster::concat("bn", i), torch::nn::BatchNorm1d(widths[i + 1])));
      }
    }
    if (spec.at("spare_layer")) register_module("spare", torch::nn::Linear(widths[0], 2));
  }

  at::Tensor forward(at::Tensor x) {
    for (size_t i = 0; i + 1 < layers.size(); ++i) {
      x = layers[i]->forward(x);
      if (!norms.empty()) x = norms[i]->forward(x);
      x = at::relu(x);
    }
    return layers.back()->forward(x);
  }

  std::vector<torch::nn::Linear> layers;
  std::vector<torch::nn::BatchNorm1d> norms;
};

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Json& spec,
                                                        const std::vector<at::Tensor>& parameters) {
  const double lr = spec.at("lr");
  if (spec.at("optimizer") == "sgd") {
    return std::make_unique<torch::optim::SGD>(parameters,
                                               torch::optim::SGDOptions(lr).momentum(0.9));
  }
  return std::make_unique<torch::optim::AdamW>(parameters,
                                               torch::optim::AdamWOptions(lr).eps(1e-4));
}

Json numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kDouble).flatten().contiguous();
  return std::vector<double>(flat.const_data_ptr<double>(),
                             flat.const_data_ptr<double>() + flat.numel());
}

Json train(const Json& spec, const muster::distributed::ProcessGroup& group) {
  const at::ScalarType dtype = spec.at("dtype") == "float64" ? at::kDouble : at::kFloat;
  const auto widths = spec.at("widths").get<std::vector<int64_t>>();
  const int64_t rows = spec.at("rows_per_rank"), micro_steps = spec.at("micro_steps"),
                seed = spec.at("seed");
  torch::manual_seed(static_cast<uint64_t>(seed));
  const auto net = std::make_shared<Net>(spec);
  net->to(dtype);
  muster::parallel::DistributedDataParallel ddp(
      net,
      group,
      {.bucket_bytes_cap = spec.at("bucket_bytes"),
       .find_unused_parameters = spec.at("find_unused_parameters"),
       .gradient_as_bucket_view = spec.at("gradient_as_bucket_view")});
  const auto optimizer = make_optimizer(spec, net->parameters());
  Json losses = Json::array();
  for (int64_t step = 0; step < spec.at("steps"); ++step) {
    ddp.zero_grad();
    double loss_of_step = 0;
    for (int64_t micro = 0; micro < micro_steps; ++micro) {
      auto generator = at::make_generator<at::CPUGeneratorImpl>(
          ((seed * 100 + step) * 100 + micro) * 100 + group.rank());
      const at::Tensor x = at::rand({rows, widths.front()}, generator).mul(2).sub(1).to(dtype);
      const at::Tensor y = at::randint(0, widths.back(), {rows}, generator, at::kLong);
      const auto run = [&] {
        const at::Tensor loss =
            torch::nn::functional::cross_entropy(ddp->forward(x), y) / micro_steps;
        loss.backward();
        loss_of_step += loss.item<double>();
      };
      if (micro + 1 < micro_steps) {
        const auto pause = ddp.no_sync();
        run();
      } else {
        run();
      }
    }
    optimizer->step();
    losses.push_back(loss_of_step);
  }
  Json result{{"loss", losses}, {"parameters", Json::object()}, {"buffers", Json::object()}};
  for (const auto& item : net->named_parameters())
    result["parameters"][item.key()] = numbers(item.value());
  for (const auto& item : net->named_buffers())
    result["buffers"][item.key()] = numbers(item.value());
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: ddp_twin SPECS.json OUT_FOLDER\n";
    return 2;
  }
  try {
    const auto group = muster::distributed::init_process_group({.backend = "gloo"});
    Json results = Json::array();
    for (const Json& spec : muster::parse_json(muster::read_file(argv[1]), argv[1]))
      results.push_back(train(spec, group));
    std::ofstream(muster::concat(argv[2], "/rank", group.rank(), ".json")) << results;
    group.barrier();
  } catch (const muster::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
