// The code of the guides that belongs to no example: README.md, docs/ddp.md, choose-a-strategy.md,
// fsdp.md, from-ray-tune.md, when-a-rank-fails.md and activation-checkpointing.md. quotes.py checks that the blocks of these pages stand
// here line by line; the build, that they compile as they stand; a run, what needs no GPU.
// The lines are those of the pages:
// clang-format off
#include <cstdlib>
#include <iostream>
#include <vector>

#include "muster/diagnose.h"
#include "muster/optim.h"      // for clip_grad_norm
#include "muster/parallel.h"
#include "muster/tensor.h"
#include "muster/testing.h"
#include "muster/tune.h"

namespace {

using torch::nn::functional::cross_entropy;

struct NetImpl : torch::nn::Module {
  NetImpl() { linear = register_module("linear", torch::nn::Linear(4, 3)); }
  torch::Tensor forward(const torch::Tensor& x) { return linear->forward(x); }
  torch::nn::Linear linear{nullptr};
};
TORCH_MODULE(Net);

torch::Tensor loss(const torch::Tensor& scores, const torch::Tensor& y) { return cross_entropy(scores, y); }

struct Data {
  torch::Tensor x = torch::rand({6, 4});
  torch::Tensor y = torch::tensor({0, 1, 2, 0, 1, 2});
};

void readme() {
  Net net;
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const auto [x, y] = Data();
  muster::distributed::ProcessGroup group = muster::distributed::init_process_group();
  muster::parallel::DistributedDataParallel ddp(net, group);   // any module
  loss(ddp->forward(x), y).backward();                          // as before; gradients are averaged
  optimizer.step();                                             // any optimizer over net->parameters()
}

struct UnitsImpl : torch::nn::Module {
  UnitsImpl() {
    for (int i = 0; i < 2; ++i) layers.push_back(register_module("layer" + std::to_string(i), torch::nn::Linear(4, 4)));
    head = register_module("head", torch::nn::Linear(4, 3));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (size_t i = 0; i < layers.size(); ++i)
      x = muster::tensor::call_unit("layer" + std::to_string(i), layers[i], x);
    return head->forward(x);
  }
  std::vector<torch::nn::Linear> layers;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Units);

struct RowOfLayers : torch::nn::Module, muster::tensor::HasUnits {
  RowOfLayers() {
    for (int i = 0; i < 4; ++i)
      layers.push_back(register_module("layer" + std::to_string(i), torch::nn::Linear(8, 8)));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (size_t i = 0; i < layers.size(); ++i)
      x = muster::tensor::call_unit("layer" + std::to_string(i), layers[i], x);
    return x;
  }
  std::vector<muster::tensor::ChainedUnit> chain() override {
    std::vector<muster::tensor::ChainedUnit> chain;
    for (size_t i = 0; i < layers.size(); ++i)
      chain.push_back(muster::tensor::chained_unit("layer" + std::to_string(i), layers[i]));
    return chain;
  }
  std::vector<torch::nn::Linear> layers;
};

void fsdp() {
  Units net;
  const muster::distributed::ProcessGroup group = muster::distributed::init_process_group();
  const torch::Tensor x = torch::rand({6, 4}), y = torch::rand({6, 3});
  muster::parallel::ShardedDataParallel zero(net, group, {.stage = 3, .units = {{"layer0"}, {"layer1"}}});
  torch::optim::AdamW adam(zero.shard(), 1e-3);
  adam.zero_grad();
  torch::mse_loss(zero->forward(x), y).backward();
  zero.step(adam);
}

void ddp_options() {
  Net net;
  namespace mp = muster::parallel;
  muster::distributed::ProcessGroup group = muster::distributed::init_process_group();
  mp::DistributedDataParallel ddp(net, group, {.static_graph = true, .comm_hook = "bf16"});  // all options: DdpOptions
  const auto [x, y] = Data();
  loss(ddp->forward(x), y).backward();
}

void ddp_shares() {
  torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3));
  namespace mp = muster::parallel;
  const muster::distributed::ProcessGroup group = muster::distributed::init_process_group();
  mp::convert_sync_batchnorm(*net, group);   // before it is wrapped
  mp::DistributedDataParallel ddp(net, group);
  const auto [x, y] = Data();
  ddp.weigh(cross_entropy(ddp->forward(x), y), x.size(0)).backward();   // one sum of 8 bytes over the ranks
}

void norms_over_ranks() {
  Net net;
  namespace mp = muster::parallel;
  const muster::distributed::ProcessGroup group = muster::distributed::init_process_group();
  mp::DistributedDataParallel ddp(net, group);
  const torch::Tensor x = Data().x;
  const mp::BatchNormsOverRanks norms(&group);
  torch::Tensor normalized = ddp->forward(x);
}

void ddp_join() {
  Net net;
  muster::parallel::DistributedDataParallel ddp(net, muster::distributed::init_process_group());
  const auto loader = std::make_unique<std::vector<Data>>(3);
  const auto step = [&](const Data& batch) { loss(ddp->forward(batch.x), batch.y).backward(); };
  ddp.join([&] { for (auto& batch : *loader) step(batch); });
}

void ddp_accumulation() {
  Net net;
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  muster::parallel::DistributedDataParallel ddp(net, muster::distributed::init_process_group());
  const int64_t count = 2;
  const std::vector<torch::Tensor> x{Data().x, Data().x}, y{Data().y, Data().y};
  for (int64_t micro = 0; micro < count; ++micro) {
    const auto scope = ddp.accumulate(micro, count);      // no_sync() for all but the last
    (loss(ddp->forward(x[micro]), y[micro]) / count).backward();
  }
  muster::optim::clip_grad_norm(net->parameters(), 1.0);   // after backward: averaged, the same on every rank
  optimizer.step();
}

void ddp_hook() {
  Net net;
  namespace mp = muster::parallel;
  const muster::distributed::ProcessGroup group = muster::distributed::init_process_group();
  mp::DistributedDataParallel ddp(net, group);
  ddp.register_comm_hook([group](c10d::GradBucket& bucket) {
    std::vector<at::Tensor> sum{bucket.getBufferRef().div_(group.world_size())};
    return mp::BucketReduction(group.c10d()->allreduce(sum));
  });
  const auto [x, y] = Data();
  loss(ddp->forward(x), y).backward();
}

void on_gpus() {
  Net net;
  namespace mp = muster::parallel;
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const muster::distributed::ProcessGroup group = muster::distributed::init_process_group();
  mp::DistributedDataParallel ddp(net, group);
  const auto [x, y] = Data();
  torch::Tensor loss;
  mp::GradScaler scaler({}, group);                        // for float16; bfloat16 needs none
  {
    const mp::AutocastGuard autocast(torch::kCUDA);        // this thread alone; float16 on CUDA, bfloat16 on the CPU
    loss = cross_entropy(ddp->forward(x), y);
  }
  scaler.scale(loss).backward();
  scaler.unscale(optimizer);                               // only if gradients are clipped
  scaler.step(optimizer);                                  // left out on all ranks if a gradient of any overflowed
  scaler.update();
}

void on_two_gpus() {
  muster::parallel::DataParallel dp([] { return Net(); }, {at::Device("cuda:0"), at::Device("cuda:1")});
  auto optimizer = dp.optimizer([](Net& net) { return torch::optim::Adam(net->parameters(), 1e-3); });
  const auto [x, y] = Data();
  optimizer.zero_grad();
  torch::Tensor loss = dp.backward(x, y, [](Net& net, const torch::Tensor& x, const torch::Tensor& y) {
    return torch::nn::functional::cross_entropy(net->forward(x), y);
  });
  optimizer.step();
}

void ddp_instead() {
  Net net;
  muster::distributed::ProcessGroup group = muster::distributed::init_process_group();
  muster::parallel::DistributedDataParallel ddp(net, group);
}

double one_epoch(int64_t l1, double lr) { return static_cast<double>(l1) * lr; }

void tuned() {
  namespace tune = muster::tune;                            // C++
  const auto train = [](tune::TrialHandle& trial) {
    for (int64_t epoch = 1; epoch <= 10; ++epoch) {
      const double loss = one_epoch(trial.config["l1"].as_int(), trial.config["lr"].as_double());
      if (trial.report({{"loss", loss}}) != tune::Action::kContinue) return;
    }
  };
  const auto result = tune::run(train, {
      .config = {{"l1", tune::sample_from("2 ** randint(2, 9)")},
                 {"lr", tune::loguniform(1e-4, 1e-1)}, {"batch_size", tune::choice({2, 4, 8, 16})}},
      .metric = "loss", .mode = "min", .num_samples = 10,
      .scheduler = tune::asha({.max_t = 10, .grace_period = 1, .reduction_factor = 2}),
      .resources_per_trial = {.cpu = 2, .gpu = 0.5}});
  const auto best = result.best_config();
}

void monitored() {
  auto group = muster::distributed::init_process_group(
      {.timeout = std::chrono::minutes(2), .monitor = {.heartbeat = std::chrono::milliseconds(500)}});
}

int with_an_end() {
  try {
    monitored();
    return 0;
  } catch (const std::exception& error) {
    muster::diagnose::note_failure(error.what());
    return 1;
  }
}

void with_faults() {
  const auto rank_main = [](const muster::distributed::ProcessGroup& group) { group.barrier(); };
  muster::testing::run_ranks(3, rank_main, {.backend = "gloo", .monitor = {.faults = "skip@rank=1,op=broadcast,at=2"}});
}

struct Deep {
  std::vector<Net> blocks;
  torch::Tensor forward(torch::Tensor x) {
    for (Net& block : blocks) x = muster::parallel::checkpointed(block, x);
    return x;
  }
};

void checkpointed_functions() {
  namespace mp = muster::parallel;
  Net net;
  const auto x = torch::rand({6, 4});
  auto [scores, hidden] = mp::checkpointed(
      [net](const torch::Tensor& input, double scale) mutable {
        const torch::Tensor h = net->forward(input) * scale;
        return std::make_tuple(h.softmax(1), h.tanh());
      },
      x, 0.5);
  (scores.sum() + hidden.sum()).backward();
}

void checkpointed_draws() {
  namespace mp = muster::parallel;
  Net block;
  auto x = torch::rand({6, 4});
  const at::Generator generator = torch::make_generator<at::CPUGeneratorImpl>(uint64_t{1});
  const mp::RecomputeOptions options{.generators = {{generator}}};
  x = mp::checkpointed(options, block, x);
}

void chosen_blocks() {
  namespace mp = muster::parallel;
  std::vector<Net> blocks(1);
  const auto x = torch::rand({6, 4});
  mp::BlockMeter meter;
  torch::Tensor y = x;
  for (Net& block : blocks)
    y = meter.call([&](const torch::Tensor& input) { return block->forward(input); }, y);
  const auto which = mp::cheapest_choice(meter.blocks(), /*budget_bytes=*/1 << 20);
}

void checkpointed_units() {
  namespace mp = muster::parallel;
  Units net;
  const auto x = torch::rand({6, 4});
  const std::vector<muster::tensor::Unit> units{{"layer0", net->layers[0]->parameters()}, {"layer1", net->layers[1]->parameters()}};
  torch::Tensor out;
  mp::UnitCheckpoints checkpoints(mp::parse_block_rule("every:2", "--blocks"), units);
  {
    const muster::tensor::UnitCallScope scope(checkpoints);
    out = net->forward(x);
  }
  out.sum().backward();
}

void offloaded() {
  namespace mp = muster::parallel;
  Net net;
  const auto x = torch::rand({6, 4});
  mp::ActivationOffload offload({.min_bytes = 1 << 20});
  torch::Tensor out;
  {
    const muster::tensor::SavedTensorScope scope(offload);
    out = net->forward(x);
  }
  out.sum().backward();
  const int64_t on_the_host = offload.bytes().offloaded;
}

int train(int argc, char**) {
  for (const auto run : {readme, fsdp, ddp_options, ddp_shares, norms_over_ranks, ddp_join, ddp_accumulation, ddp_hook, ddp_instead, checkpointed_functions,
                         checkpointed_draws, chosen_blocks, checkpointed_units, offloaded}) run();
  if (with_an_end() != 0) return 1;
  if (argc > 1) {  // not in the test: GPUs, a study's files, an error that is meant
    for (const auto run : {on_gpus, on_two_gpus, tuned, with_faults}) run();
  }
  std::cout << "the code of the guides ran\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return muster::diagnose::explained_main([&] { return train(argc, argv); });
}
