// A step of a pipeline of ranks whose memory runs out on one of them, made again by all.
#include <atomic>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/text.h"
#include "muster/distributed/process_group.h"
#include "muster/memory/guard/guard.h"
#include "muster/parallel/pipeline_ranks/distributed_pipeline.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using parallel::Block;
using parallel::DistributedPipeline;
using parallel::Tensors;

constexpr int kBlocks = 4;
constexpr int64_t kRows = 8;

/// In which call a block has no memory left; 0: never.
struct Shortage {
  std::atomic<int> forward{0}, backward{0};

  static void count(std::atomic<int>& calls) {
    if (--calls == 0)
      TORCH_CHECK_WITH(OutOfMemoryError, false, "fake out of memory. Tried to allocate 4.00 KiB");
  }
};

struct ShortInBackward : torch::autograd::Function<ShortInBackward> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& x,
                               int64_t shortage) {
    context->saved_data["shortage"] = shortage;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    Shortage::count(*reinterpret_cast<std::atomic<int>*>(context->saved_data["shortage"].toInt()));
    return {gradients[0], torch::Tensor()};
  }
};

std::vector<Block> blocks_of_net(const torch::nn::Sequential& net, Shortage* shortages) {
  std::vector<Block> blocks;
  for (size_t i = 0; i < net->size(); ++i) {
    auto linear = std::static_pointer_cast<torch::nn::LinearImpl>(net->ptr(i));
    Shortage& own = shortages[i];
    blocks.push_back({.name = std::to_string(i),
                      .modules = {linear},
                      .forward = [linear, &own](const Tensors& inputs) -> Tensors {
                        Shortage::count(own.forward);
                        return {ShortInBackward::apply(torch::tanh(linear->forward(inputs[0])),
                                                       reinterpret_cast<int64_t>(&own.backward))};
                      }});
  }
  return blocks;
}

torch::Tensor mean_square(const Tensors& outputs, const Tensors& targets) {
  return (outputs[0] - targets[0]).pow(2).mean();
}

struct Run {
  std::string schedule;
  int64_t told = 0;  ///< rows of a micro-batch of the guard's, from the start
  int block = 0, forward = 0, backward = 0;
};

struct Outcome {
  std::vector<torch::Tensor> gradients;  // of all blocks, each from its rank
  std::vector<memory::GuardedStep> steps;
};

Outcome outcome_of(const Run& run, const torch::Tensor& x, const torch::Tensor& y) {
  constexpr int kRanks = 2;
  std::vector<torch::nn::Sequential> nets(kRanks);
  for (auto& net : nets) {  // here: LibTorch's seed is one for all threads
    torch::manual_seed(4);
    net = torch::nn::Sequential();
    for (int i = 0; i < kBlocks; ++i) net->push_back(torch::nn::Linear(3, 3));
    net->to(torch::kDouble);
  }
  std::vector<Shortage> shortages(kRanks * kBlocks);
  for (int rank = 0; rank < kRanks; ++rank) {
    Shortage& shortage = shortages[static_cast<size_t>(rank * kBlocks + run.block)];
    shortage.forward = run.forward;
    shortage.backward = run.backward;
  }
  Outcome outcome{.gradients = std::vector<torch::Tensor>(2 * kBlocks), .steps = {{}, {}}};
  distributed::ThreadWorld(kRanks, std::chrono::minutes(1)).run([&](const ProcessGroup& group) {
    const auto me = static_cast<size_t>(group.rank());
    DistributedPipeline pipe(
        blocks_of_net(nets[me], &shortages[me * kBlocks]),
        group,
        &mean_square,
        {.schedule = run.schedule, .micro_batches = 2, .first_block = {0, kBlocks / 2}});
    memory::Guard guard(*nets[me],
                        {.micro_batch = run.told, .retry_same_size = false, .group = group});
    outcome.steps[me] = guard.step(kRows, [&](const memory::MicroBatch& part) {
      pipe.step({part.of(x)}, {part.of(y)}, part.weight);
    });
    const auto all = nets[me]->parameters();
    for (const torch::Tensor& parameter : pipe.parameters())
      for (size_t i = 0; i < all.size(); ++i)
        if (all[i].is_same(parameter)) outcome.gradients[i] = parameter.grad().clone();
  });
  return outcome;
}

TEST(GuardedPipeline, EndsInTheBitsOfTheRunThatWasToldTheMicroBatchWhicheverCallFails) {
  torch::manual_seed(1);
  const torch::Tensor x = torch::randn({kRows, 3}, torch::kDouble);
  const torch::Tensor y = torch::randn({kRows, 3}, torch::kDouble);
  for (const std::string schedule : {"gpipe", "1f1b", "zb1p"}) {
    const Outcome told = outcome_of({.schedule = schedule, .told = kRows / 2}, x, y);
    for (int block = 0; block < kBlocks; ++block) {
      for (int call = 1; call <= 4; ++call) {
        const bool backward = call > 2;
        SCOPED_TRACE(concat(schedule, ", block ", block, ", call ", call));
        const Outcome split = outcome_of({.schedule = schedule,
                                          .block = block,
                                          .forward = backward ? 0 : call,
                                          .backward = backward ? call - 2 : 0},
                                         x,
                                         y);
        for (const memory::GuardedStep& step : split.steps) {
          EXPECT_EQ(step.attempts, 2);
          EXPECT_EQ(step.micro_batches, 2);
        }
        for (size_t i = 0; i < told.gradients.size(); ++i)
          EXPECT_TRUE(torch::equal(split.gradients[i], told.gradients[i])) << i;
      }
    }
  }
}

}  // namespace
}  // namespace muster
