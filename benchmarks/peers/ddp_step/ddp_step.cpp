// The C++ sides of benchmarks/peers/ddp_step: one rank of a group of processes that train a model.
//
//     ddp_step BACKEND      RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT as from a launcher
//
// Rank 0 answers commands on stdin, one line each, with one line of JSON on stdout; run.py gives
// them.
//     setup SIDE MODEL [KEY=VALUE …]   a model, its batch and its optimizer anew; MODEL is of
//                          kModels, the keys are those of set_option()
//     losses SIDE COUNT    {"losses": of COUNT steps, each the mean over the ranks}
//     step SIDE COUNT      {"seconds": of COUNT steps on the slowest rank, "cpu_seconds": of all
//                          ranks' processes, "forward", "backward", "update": seconds, mean of the
//                          ranks}
//     drop                 forgets all sides
// The end of stdin ends all ranks.
#include <array>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <torch/nn/functional/loss.h>
#include <torch/utils.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/models/model.h"
#include "muster/optim/optimizer.h"
#include "muster/parallel/ddp/ddp.h"

#include "benchmarks/peers/rank_program.h"

namespace {

using muster::Json;
using muster::distributed::ProcessGroup;
using muster::models::Classifier;
using muster::parallel::DdpOptions;
using Ddp = muster::parallel::DistributedDataParallel<std::shared_ptr<Classifier>>;

struct Model {
  std::string name;
  muster::ParamValues params;
  muster::models::ImageShape shape;
  int64_t batch_per_rank;
};

/// As in peer.py.
const std::map<std::string, Model> kModels = {
    {"mlp", {"mlp", {{"hidden", "2048"}}, {}, 64}},
    {"cnn", {"cnn", {}, {}, 32}},
    {"resnet18", {"resnet18", {}, {.channels = 3, .height = 32, .width = 32}, 32}},
    {"lstm", {"lstm", {}, {}, 64}}};

struct Options {
  bool alone = false;       ///< no communication at all
  bool same_batch = false;  ///< all ranks see rank 0's batch
  DdpOptions ddp;
};

void set_option(Options& options, const std::string& word) {
  const std::string key = word.substr(0, word.find('='));
  const int64_t value = std::stoll(word.substr(key.size() + 1));
  if (key == "alone")
    options.alone = value != 0;
  else if (key == "same_batch")
    options.same_batch = value != 0;
  else if (key == "bucket_bytes_cap")
    options.ddp.bucket_bytes_cap = value;
  else if (key == "direct_bytes")
    options.ddp.direct_bytes = value;
  else if (key == "first_bucket_bytes_cap")
    options.ddp.first_bucket_bytes_cap = value;
  else if (key == "gradient_as_bucket_view")
    options.ddp.gradient_as_bucket_view = value != 0;
  else if (key == "desync_check_steps")
    options.ddp.desync_check_steps = value;
  else
    throw muster::usage_error({.refused = "option " + key});
}

/// What one side holds on one rank.
struct Side {
  std::shared_ptr<Classifier> net;
  std::unique_ptr<Ddp> ddp;  // null: alone
  std::unique_ptr<muster::optim::Optimizer> optimizer;
  at::Tensor images, labels;
};

Side make_side(const Model& model, const Options& options, const ProcessGroup& group) {
  Side side;
  torch::manual_seed(0);
  side.net = muster::models::make_model(model.name, model.shape, model.params);
  torch::manual_seed(100 + (options.same_batch ? 0 : group.rank()));
  side.images = at::randn(
      {model.batch_per_rank, model.shape.channels, model.shape.height, model.shape.width});
  side.labels = at::randint(0, model.shape.classes, {model.batch_per_rank}, at::kLong);
  if (!options.alone) side.ddp = std::make_unique<Ddp>(side.net, group, options.ddp);
  muster::tensor::NamedTensorList named;
  for (const auto& item : side.net->named_parameters())
    named.emplace_back(item.key(), item.value());
  side.optimizer =
      muster::optim::optimizers().at("sgd").make(std::move(named), 0.01, {{"momentum", "0.9"}});
  return side;
}

/// When a step's parts began, and when it ended.
using Marks = std::array<double, 4>;

at::Tensor step(Side& side, Marks& marks) {
  marks[0] = clock_s(CLOCK_MONOTONIC);
  side.optimizer->zero_grad();
  const at::Tensor scores =
      side.ddp ? side.ddp->forward(side.images) : side.net->forward(side.images);
  const at::Tensor loss = torch::nn::functional::cross_entropy(scores, side.labels);
  marks[1] = clock_s(CLOCK_MONOTONIC);
  loss.backward();
  marks[2] = clock_s(CLOCK_MONOTONIC);
  side.optimizer->step();
  marks[3] = clock_s(CLOCK_MONOTONIC);
  return loss.detach();
}

Json losses_of(Side& side, int64_t count, const ProcessGroup& group) {
  at::Tensor losses = at::empty({count}, at::kDouble);
  Marks marks;
  for (int64_t i = 0; i < count; ++i) losses[i] = step(side, marks);
  group.all_reduce(losses);
  losses /= group.world_size();
  return {{"losses",
           std::vector<double>(losses.data_ptr<double>(), losses.data_ptr<double>() + count)}};
}

Json time_steps(Side& side, int64_t count, const ProcessGroup& group) {
  std::array<double, 4> sums{};  // forward, backward, update, CPU
  Marks marks;
  group.barrier();
  const double start = clock_s(CLOCK_MONOTONIC), cpu_start = clock_s(CLOCK_PROCESS_CPUTIME_ID);
  for (int64_t i = 0; i < count; ++i) {
    step(side, marks);
    for (size_t part = 0; part < 3; ++part) sums[part] += marks[part + 1] - marks[part];
  }
  const at::Tensor wall = at::tensor({clock_s(CLOCK_MONOTONIC) - start}, at::kDouble);
  sums[3] = clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
  const at::Tensor total = at::tensor(at::ArrayRef<double>(sums), at::kDouble);
  group.all_reduce(wall, c10d::ReduceOp::MAX);
  group.all_reduce(total);
  const auto* of_all = total.const_data_ptr<double>();
  const int world = group.world_size();
  return {{"seconds", wall.item<double>()},
          {"forward", of_all[0] / world},
          {"backward", of_all[1] / world},
          {"update", of_all[2] / world},
          {"cpu_seconds", of_all[3]}};
}

Json answer_to(const std::string& order,
               std::map<std::string, Side>& sides,
               const ProcessGroup& group) {
  std::istringstream words(order);
  std::string command, side, word;
  int64_t count = 0;
  words >> command >> side;
  if (command == "setup" && words >> word) {
    const Model& model = kModels.at(word);
    Options options;
    while (words >> word) set_option(options, word);
    sides.erase(side);
    sides.emplace(side, make_side(model, options, group));
    return Json::object();
  }
  if (command == "losses" && words >> count) return losses_of(sides.at(side), count, group);
  if (command == "step" && words >> count) return time_steps(sides.at(side), count, group);
  if (command != "drop") throw muster::usage_error({.refused = "command " + order});
  sides.clear();
  return Json::object();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const ProcessGroup group = muster::distributed::init_process_group({.backend = argv[1]});
    std::map<std::string, Side> sides;
    for (std::string order = next_order(group); !order.empty(); order = next_order(group)) {
      const Json answer = answer_to(order, sides, group);
      if (group.rank() == 0) std::cout << answer.dump() << std::endl;
    }
  } catch (const std::exception& error) {
    std::cerr << "ddp_step: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
