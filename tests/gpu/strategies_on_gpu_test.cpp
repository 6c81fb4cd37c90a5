// Strategies whose ranks share one real device: the numbers of the CPU, in float64, to its rounding.
#include "muster/parallel/ddp/ddp.h"
#include "muster/parallel/pipeline/measure.h"
#include "muster/parallel/pipeline/pipeline.h"
#include "muster/parallel/precision/autocast.h"
#include "muster/parallel/replicas/data_parallel.h"
#include "muster/parallel/sharded/zero.h"
#include "muster/tensor/unit_call.h"
#include "muster/testing/run_ranks.h"

#include "tests/gpu/gpu.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using parallel::Pipeline;
using test::apart;
using test::kGpu;
using test::OnGpu;
using Weights = std::vector<at::Tensor>;

constexpr double kRounding = 1e-12;  // of float64, relative; another order of sums
constexpr int64_t kWidth = 32, kLayers = 4, kRows = 12;

using StrategiesOnGpu = OnGpu;

/// Its layers are units, which fsdp shards.
struct UnitNetImpl : torch::nn::Module {
  UnitNetImpl() {
    torch::manual_seed(2);
    for (int64_t i = 0; i < kLayers; ++i)
      layers.push_back(register_module(name(i), torch::nn::Linear(kWidth, kWidth)));
    to(at::kDouble);
  }
  static std::string name(int64_t i) { return "layer" + std::to_string(i); }
  at::Tensor forward(at::Tensor x) {
    for (int64_t i = 0; i < kLayers; ++i)
      x = torch::tanh(tensor::call_unit(name(i), layers[static_cast<size_t>(i)], x));
    return x;
  }
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(UnitNet);

at::Tensor batch(int step) {
  const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step) + 5);
  return torch::randn({kRows, kWidth}, generator, at::TensorOptions(at::kDouble));
}

at::Tensor loss_of(const at::Tensor& scores) { return scores.square().mean(); }

Weights weights_of(torch::nn::Module& net) {
  Weights weights;
  for (const at::Tensor& parameter : net.parameters())
    weights.push_back(parameter.detach().cpu().clone());
  return weights;
}

/// stage 0: DistributedDataParallel; 1, 2: zero1, zero2; 3: fsdp.
Weights train(const ProcessGroup& group, UnitNet net, int stage, c10::Device device) {
  const int64_t share = kRows / group.world_size();
  const auto rows = [&](int step) {
    return batch(step).narrow(0, group.rank() * share, share).to(device);
  };
  net->to(device);
  if (stage == 0) {
    parallel::DistributedDataParallel<UnitNet> ddp(net, group);
    torch::optim::Adam adam(net->parameters(), 1e-2);
    for (int step = 0; step < 5; ++step) {
      adam.zero_grad();
      loss_of(ddp->forward(rows(step))).backward();
      adam.step();
    }
    return weights_of(*net);
  }
  parallel::ZeroOptions options{.stage = stage};
  for (int64_t i = 0; stage == 3 && i < kLayers; ++i)
    options.units.push_back({UnitNetImpl::name(i)});
  parallel::ShardedDataParallel zero(net, group, options);
  torch::optim::Adam adam(zero.shard(), 1e-2);
  for (int step = 0; step < 5; ++step) {
    adam.zero_grad();
    loss_of(zero->forward(rows(step))).backward();
    zero.step(adam);
  }
  const auto whole = zero.whole_weights();
  return weights_of(*net);
}

TEST_F(StrategiesOnGpu, RanksThatAreThreadsTrainToTheCpusWeights) {
  for (const int stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    std::vector<Weights> weights(2), expected(2);
    for (const bool on_cpu : {true, false}) {
      std::vector<UnitNet> nets{UnitNet(), UnitNet()};
      testing::run_ranks(2, [&](const ProcessGroup& group) {
        const auto rank = static_cast<size_t>(group.rank());
        (on_cpu ? expected : weights)[rank] =
            train(group, nets[rank], stage, on_cpu ? c10::Device(c10::kCPU) : kGpu);
      });
    }
    for (size_t rank = 0; rank < 2; ++rank)
      EXPECT_LE(apart(weights[rank], expected[rank]), kRounding);
    EXPECT_EQ(apart(weights[0], weights[1]), 0) << "replicas are alike to the bit";
  }
}

TEST_F(StrategiesOnGpu, ReplicasOnCpuAndDeviceHaveTheGradientsOfOne) {
  const auto gradients = [](const std::vector<c10::Device>& devices) {
    parallel::DataParallel<UnitNet> dp([] { return UnitNet(); }, devices);
    for (int step = 0; step < 6; ++step)  // more than the pinned ring has slots
      dp.backward(batch(step),
                  [](UnitNet& net, const at::Tensor& x) { return loss_of(net->forward(x)); });
    Weights all;
    for (const at::Tensor& parameter : dp.module()->parameters())
      all.push_back(parameter.grad().cpu());
    all.push_back(dp.forward(batch(9)).cpu());
    return all;
  };
  const Weights expected = gradients({c10::kCPU});
  EXPECT_LE(apart(gradients({kGpu}), expected), kRounding);
  EXPECT_LE(apart(gradients({kGpu, c10::kCPU}), expected), kRounding);
}

struct PipelineCase {
  std::string schedule;
  pipeline::Split first_block;
};

Weights run_pipeline(const PipelineCase& at, const std::vector<c10::Device>& devices) {
  torch::manual_seed(3);
  torch::nn::Sequential net;
  for (int i = 0; i < kLayers; ++i) {
    net->push_back(torch::nn::Linear(kWidth, kWidth));
    net->push_back(torch::nn::Functional(torch::tanh));
  }
  net->to(at::kDouble);
  Pipeline pipe(parallel::blocks_of(net),
                devices,
                [](const parallel::Tensors& outputs, const parallel::Tensors& targets) {
                  return (outputs[0] - targets[0]).square().mean();
                },
                {.schedule = at.schedule, .micro_batches = 4, .first_block = at.first_block});
  torch::optim::SGD optimizer(pipe.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  Weights made;
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    made.push_back(pipe.step({batch(step)}, {batch(step + 100)}).loss.cpu());
    optimizer.step();
  }
  made.push_back(pipe.forward({batch(9)})[0].cpu());
  for (const at::Tensor& parameter : pipe.parameters()) made.push_back(parameter.cpu());
  return made;
}

TEST_F(StrategiesOnGpu, PipelinesOfEverySchedulePassActivationsBetweenStreams) {
  for (const PipelineCase& at : {PipelineCase{"gpipe", {0, 4}},
                                 {"1f1b", {0, 2}},
                                 {"interleaved", {0, 2, 4, 6}},
                                 {"zb1p", {0, 4}},
                                 {"zbv", {0, 1, 3, 6}}}) {
    SCOPED_TRACE(at.schedule);
    const Weights expected = run_pipeline(at, {c10::kCPU, c10::kCPU});
    for (int turn = 0; turn < 5; ++turn) {
      EXPECT_LE(apart(run_pipeline(at, {kGpu, kGpu}), expected), kRounding);
      EXPECT_LE(apart(run_pipeline(at, {c10::kCPU, kGpu}), expected), kRounding);
      EXPECT_LE(apart(run_pipeline(at, {kGpu, c10::kCPU}), expected), kRounding);
    }
  }
}

TEST_F(StrategiesOnGpu, AutocastIsTheDevices) {
  const at::Tensor a = torch::ones({8, 8}, kGpu);
  {
    const parallel::AutocastGuard guard(c10::kCUDA, {});
    EXPECT_EQ(a.mm(a).scalar_type(), at::kHalf);
    EXPECT_EQ(torch::ones({8, 8}).mm(torch::ones({8, 8})).scalar_type(), at::kFloat);
  }
  EXPECT_EQ(a.mm(a).scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace muster
