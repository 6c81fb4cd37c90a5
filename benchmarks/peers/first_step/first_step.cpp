// The C++ side of benchmarks/peers/first_step: what peer.py does, by Muster.
//
//     export FIRST_STEP_OUT=/tmp/out
//     build/bin/muster run --nproc-per-node 2 -- build/bin/first_step memory
//     build/bin/muster run --nproc-per-node 2 -- build/bin/first_step fashion-mnist FOLDER
//
// Each rank notes CLOCK_MONOTONIC at the end of the first optimizer step and writes it, with the
// times of the phases before it and the loss, to FIRST_STEP_OUT/rank<R>.json. run.py runs both
// sides in turn and prints the table.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/relu.h>
#include <time.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "muster/base/json.h"
#include "muster/data/dataset.h"
#include "muster/data/loader/loader.h"
#include "muster/data/samplers/distributed.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/parallel/ddp/ddp.h"

namespace {

namespace F = torch::nn::functional;

constexpr int64_t kBatchPerRank = 64;

double monotonic_s() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::shared_ptr<const muster::data::Dataset> open_dataset(int argc, char** argv) {
  if (argc > 2) {
    return muster::data::datasets().at(argv[1]).open({.data_dir = argv[2]});
  }
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(7);
  const at::Tensor images = at::rand({256, 784}, generator);
  const at::Tensor labels = at::randint(0, 10, {256}, generator, at::kLong);
  return std::make_shared<muster::data::TensorDataset>(images, labels, 10);
}

struct Mlp : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    return fc3(at::relu(fc2(at::relu(fc1(x.flatten(1))))));
  }

  torch::nn::Linear fc1 = register_module("fc1", torch::nn::Linear(784, 2048));
  torch::nn::Linear fc2 = register_module("fc2", torch::nn::Linear(2048, 2048));
  torch::nn::Linear fc3 = register_module("fc3", torch::nn::Linear(2048, 10));
};

void take_first_step(int argc, char** argv) {
  muster::Json note;
  note["started"] = monotonic_s();
  const auto group = muster::distributed::init_process_group({.backend = "gloo"});
  note["grouped"] = monotonic_s();
  const auto dataset = open_dataset(argc, argv);
  muster::data::Loader loader(dataset,
                              {.batch_size = kBatchPerRank},
                              std::make_unique<muster::data::DistributedSampler>(
                                  dataset->size(),
                                  muster::data::DistributedSamplerOptions{
                                      .world_size = group.world_size(), .rank = group.rank()}));
  note["loaded"] = monotonic_s();
  torch::manual_seed(0);
  const auto model = std::make_shared<Mlp>();
  note["drawn"] = monotonic_s();
  muster::parallel::DistributedDataParallel ddp(model, group);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  note["wrapped"] = monotonic_s();
  auto epoch = loader.epoch(0);
  const auto batch = epoch.next().value();
  optimizer.zero_grad();
  const at::Tensor loss = F::cross_entropy(ddp->forward(batch["data"]), batch["target"]);
  note["forward"] = monotonic_s();
  loss.backward();
  optimizer.step();
  note["stepped"] = monotonic_s();
  note["loss"] = loss.item<double>();
  std::ofstream(muster::concat(std::getenv("FIRST_STEP_OUT"), "/rank", group.rank(), ".json"))
      << note;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || !std::getenv("FIRST_STEP_OUT")) {
    std::cerr << "usage: FIRST_STEP_OUT=FOLDER first_step memory | fashion-mnist FOLDER\n";
    return 2;
  }
  try {
    take_first_step(argc, argv);
  } catch (const muster::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
