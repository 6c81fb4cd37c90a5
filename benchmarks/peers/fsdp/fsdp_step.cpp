// The C++ side of benchmarks/peers/fsdp: one rank of a group of processes that train encoder layers.
//
//     fsdp_step BACKEND STRATEGY      STRATEGY: ddp, zero2 or fsdp; RANK, WORLD_SIZE, MASTER_ADDR,
//                                     MASTER_PORT as from a launcher
//
// Rank 0 answers commands on stdin, one line each, with one line of JSON on stdout; run.py gives
// them.
//     setup LAYERS WIDTH BATCH TOKENS   the model, the rank's batch, AdamW
//     step COUNT     {"seconds": of COUNT steps on the slowest rank, "loss": of the last one, mean of
//                    the ranks}
//     memory         {"peak_mib": the most that a rank's process had above what it had before
//                    setup}
// The end of stdin ends all ranks.
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <torch/utils.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/models/zoo/transformer.h"
#include "muster/optim/optimizer.h"
#include "muster/parallel/ddp/ddp.h"
#include "muster/parallel/sharded/zero.h"

#include "benchmarks/peers/process_status.h"
#include "benchmarks/peers/rank_program.h"

namespace {

using muster::Json;
using muster::distributed::ProcessGroup;

struct StackImpl : torch::nn::Module {
  StackImpl(int64_t count, int64_t width) {
    for (int64_t i = 0; i < count; ++i) {
      const muster::models::EncoderLayer layer(width, 4, 4 * width, 0.0);
      layers.push_back(register_module(name(i), layer));
    }
  }
  static std::string name(int64_t i) { return "layer" + std::to_string(i); }

  at::Tensor forward(at::Tensor x) {
    int64_t i = 0;
    for (auto& layer : layers) x = muster::tensor::call_unit(name(i++), layer, x);
    return x;
  }

  std::vector<muster::models::EncoderLayer> layers;
};
TORCH_MODULE(Stack);

struct Sizes {
  int64_t layers = 0, width = 0, batch = 0, tokens = 0;
};

/// What a rank trains.
class Side {
 public:
  Side(const std::string& strategy, const Sizes& sizes, const ProcessGroup& group) {
    torch::manual_seed(1);
    Stack net(sizes.layers, sizes.width);
    torch::manual_seed(100 + group.rank());
    input_ = at::randn({sizes.batch, sizes.tokens, sizes.width});
    muster::tensor::NamedTensorList updated;
    if (strategy == "ddp") {
      ddp_ = std::make_unique<Ddp>(
          net, group, muster::parallel::DdpOptions{.gradient_as_bucket_view = true});
      for (const auto& item : net->named_parameters())
        updated.emplace_back(item.key(), item.value());
    } else {
      muster::parallel::ZeroOptions options{.stage = strategy == "fsdp" ? 3 : 2};
      for (int64_t i = 0; options.stage == 3 && i < sizes.layers; ++i)
        options.units.push_back({StackImpl::name(i)});
      zero_ = std::make_unique<Zero>(net, group, options);
      for (const at::Tensor& piece : zero_->shard())
        updated.emplace_back(std::to_string(updated.size()), piece);
    }
    optimizer_ = muster::optim::optimizers().at("adamw").make(std::move(updated), 1e-3, {});
  }

  at::Tensor step() {
    optimizer_->zero_grad();
    const at::Tensor output = ddp_ ? ddp_->forward(input_) : zero_->forward(input_);
    const at::Tensor loss = output.square().mean();
    loss.backward();
    if (ddp_) {
      optimizer_->step();
    } else {
      zero_->step(*optimizer_);
    }
    return loss.detach();
  }

 private:
  using Ddp = muster::parallel::DistributedDataParallel<Stack>;
  using Zero = muster::parallel::ShardedDataParallel<Stack>;
  std::unique_ptr<Ddp> ddp_;
  std::unique_ptr<Zero> zero_;
  std::unique_ptr<muster::optim::Optimizer> optimizer_;
  at::Tensor input_;
};

double most_of_ranks(double value, const ProcessGroup& group) {
  const at::Tensor most = at::tensor({value}, at::kDouble);
  group.all_reduce(most, c10d::ReduceOp::MAX);
  return most.item<double>();
}

Json steps(Side& side, int64_t count, const ProcessGroup& group) {
  group.barrier();
  const double start = clock_s(CLOCK_MONOTONIC);
  at::Tensor loss;
  for (int64_t i = 0; i < count; ++i) loss = side.step();
  const double seconds = most_of_ranks(clock_s(CLOCK_MONOTONIC) - start, group);
  group.all_reduce(loss);
  return {{"seconds", seconds}, {"loss", loss.item<double>() / group.world_size()}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const ProcessGroup group = muster::distributed::init_process_group({.backend = argv[1]});
    std::unique_ptr<Side> side;
    const double before = status_mib("VmRSS");
    for (std::string order = next_order(group); !order.empty(); order = next_order(group)) {
      std::istringstream words(order);
      std::string command;
      Json answer = Json::object();
      int64_t count = 0;
      Sizes sizes;
      words >> command;
      if (command == "setup" &&
          words >> sizes.layers >> sizes.width >> sizes.batch >> sizes.tokens) {
        side = std::make_unique<Side>(argv[2], sizes, group);
      } else if (command == "step" && words >> count && side) {
        answer = steps(*side, count, group);
      } else if (command == "memory") {
        answer["peak_mib"] = most_of_ranks(status_mib("VmHWM") - before, group);
      } else {
        throw muster::usage_error({.refused = "command " + order});
      }
      if (group.rank() == 0) std::cout << answer.dump() << std::endl;
    }
  } catch (const std::exception& error) {
    std::cerr << "fsdp_step: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
