// What happens to a pipeline of ranks when one of them cannot do its part.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/text.h"
#include "muster/distributed/device_mesh.h"
#include "muster/parallel/pipeline_ranks/distributed_pipeline.h"
#include "muster/pipeline/schedule/schedule.h"

#include "tests/support/blows.h"
#include "tests/support/distance.h"
#include "tests/support/error_of.h"
#include "tests/support/seed.h"

namespace muster {
namespace {

using distributed::DeviceMesh;
using distributed::ProcessGroup;
using distributed::ThreadWorld;
using parallel::Block;
using parallel::DistributedPipeline;
using parallel::Tensors;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

torch::Tensor mean_of(const Tensors& outputs, const Tensors& targets) {
  return (outputs[0] - targets[0]).pow(2).mean();
}

/// Passes on, and throws in the forward or the backward that it was told to.
struct Faulty : torch::autograd::Function<Faulty> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& x,
                               int64_t countdown) {
    context->saved_data["countdown"] = countdown;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto* left = reinterpret_cast<std::atomic<int>*>(context->saved_data["countdown"].toInt());
    if (--*left == 0) throw std::runtime_error("a fault in backward");
    return {gradients[0], torch::Tensor()};
  }
};

/// The blocks of one rank, alike on all; those with a number above 0 fail at that call.
struct Faults {
  std::array<std::atomic<int>, 8> forward{}, backward{};
};

std::vector<Block> blocks_with(torch::nn::Sequential net, Faults& faults) {
  std::vector<Block> blocks;
  for (size_t i = 0; i < net->size(); ++i) {
    auto linear = std::static_pointer_cast<torch::nn::LinearImpl>(net->ptr(i));
    blocks.push_back({.name = std::to_string(i),
                      .modules = {linear},
                      .forward = [linear, i, &faults](const Tensors& inputs) -> Tensors {
                        if (--faults.forward[i] == 0)
                          throw std::runtime_error("a fault in forward");
                        return {Faulty::apply(torch::tanh(linear->forward(inputs[0])),
                                              reinterpret_cast<int64_t>(&faults.backward[i]))};
                      }});
  }
  return blocks;
}

torch::nn::Sequential net_of(int blocks) {
  torch::manual_seed(4);
  torch::nn::Sequential net;
  for (int i = 0; i < blocks; ++i) net->push_back(torch::nn::Linear(3, 3));
  net->to(torch::kDouble);
  return net;
}

/// By backend.
class PipelineOfRanksOver : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Backend,
                         PipelineOfRanksOver,
                         ::testing::Values("thread", "shm", "gloo"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(PipelineOfRanksOver, FailsOnAllRanksWithTheCauseAndGoesOn) {
  const unsigned seed = test::seed_of_test();
  SCOPED_TRACE(concat("repeat with MUSTER_TEST_SEED=", seed));
  std::mt19937 random(seed);
  const std::vector<std::string> schedules{"gpipe", "1f1b", "zb1p", "interleaved", "zbv"};
  torch::manual_seed(1);
  const torch::Tensor x = torch::randn({12, 3}, torch::kDouble);
  const torch::Tensor y = torch::randn({12, 3}, torch::kDouble);
  auto alone = net_of(6);
  Faults none;
  Tensors out{x};
  for (const Block& block : blocks_with(alone, none)) out = block.forward(out);
  mean_of(out, {y}).backward();
  const int rounds = test::count_of_blows(70);
  for (int round = 0; round < rounds; ++round) {
    const std::string schedule = schedules[random() % schedules.size()];
    const int64_t per_rank = schedule == "interleaved" || schedule == "zbv" ? 2 : 1;
    const int64_t ranks = per_rank == 2 ? 2 + int64_t(random() % 2) : 2 + int64_t(random() % 3);
    const bool replicates = random() % 3 == 0;
    const size_t block = random() % 6;
    const bool backward = random() % 2 == 0;
    const int call = 1 + int(random() % 6);
    const char* backend = GetParam();
    pipeline::Split split{0};
    for (int64_t i = 1; i < ranks * per_rank; ++i) split.push_back(i);
    const size_t stage = std::min(block, split.size() - 1);
    SCOPED_TRACE(concat(schedule,
                        ", ",
                        ranks,
                        " ranks over ",
                        backend,
                        replicates ? ", two replicas" : "",
                        ": block ",
                        block,
                        backward ? " backward " : " forward ",
                        call));
    const int world_size = int(ranks) * (replicates ? 2 : 1);
    std::vector<torch::nn::Sequential> nets;
    for (int i = 0; i < world_size; ++i) nets.push_back(net_of(6));
    std::vector<Faults> faults(static_cast<size_t>(world_size));
    for (int64_t rank = 0; rank < ranks; ++rank)  // of the first replica
      (backward ? faults[size_t(rank)].backward : faults[size_t(rank)].forward)[block] = call;
    ThreadWorld(world_size, std::chrono::minutes(1), backend).run([&](const ProcessGroup& world) {
      const DeviceMesh mesh(world, {{"data", replicates ? 2 : 1}, {"pipeline", ranks}});
      const auto me = size_t(world.rank());
      DistributedPipeline pipe(blocks_with(nets[me], faults[me]),
                               mesh,
                               &mean_of,
                               {.schedule = schedule, .micro_batches = 6, .first_block = split});
      const std::string error = test::error_of([&] { pipe.step({x}, {y}); });
      const std::string where = concat("stage ", stage, ", micro-batch ");
      EXPECT_THAT(
          error,
          AllOf(HasSubstr(where), HasSubstr(backward ? "fault in backward" : "fault in forward")));
      const bool is_its = std::ranges::count(pipe.stages(), int64_t(stage)) > 0;
      if (mesh.coordinate("data") == 1) {
        EXPECT_THAT(error, HasSubstr("the step was given up: rank "));
      } else if (!is_its) {
        EXPECT_THAT(error, HasSubstr("the step was given up: rank "));
      }
      for (const torch::Tensor& parameter : pipe.parameters())
        EXPECT_FALSE(parameter.grad().defined());
      for (int i = 0; i < 2; ++i) {
        pipe.zero_grad();
        pipe.step({x}, {y});
      }
      const auto all = nets[me]->parameters();
      for (const torch::Tensor& parameter : pipe.parameters()) {
        for (size_t i = 0; i < all.size(); ++i) {
          if (all[i].is_same(parameter)) {
            EXPECT_LE(test::difference({parameter.grad()}, {alone->parameters()[i].grad()}), 1e-12);
          }
        }
      }
    });
  }
}

/// What ranks say of a step in which a stage takes four times as long as a message may take; then two
/// steps more, whose gradients are `expected`.
std::vector<std::string> said_of_a_stall(const std::string& backend,
                                         std::chrono::milliseconds timeout,
                                         const torch::Tensor& x,
                                         const std::vector<torch::Tensor>& expected) {
  std::vector<torch::nn::Sequential> nets{net_of(3), net_of(3), net_of(3)};
  std::vector<std::string> said(3);
  ThreadWorld(3, std::chrono::minutes(2), backend).run([&](const ProcessGroup& group) {
    const auto me = size_t(group.rank());
    Faults none;
    auto blocks = blocks_with(nets[me], none);
    std::atomic<int> calls = 0;
    blocks[1].forward = [&calls, timeout, inner = blocks[1].forward](const Tensors& inputs) {
      if (++calls == 2) std::this_thread::sleep_for(4 * timeout);
      return inner(inputs);
    };
    DistributedPipeline pipe(blocks, group, &mean_of, {.micro_batches = 4, .timeout = timeout});
    const auto step = [&] { pipe.step({x}, {x}); };
    said[me] = test::error_of(step);
    if (said[me].find("a stall") == std::string::npos) return;  // another was slower
    for (const torch::Tensor& parameter : pipe.parameters())
      EXPECT_FALSE(parameter.grad().defined());
    for (int i = 0; i < 2; ++i) {
      pipe.zero_grad();
      if (test::error_of(step) != test::kNoError) {
        said[me] = "a later step was given up";  // a machine that stalls
        return;
      }
    }
    const auto all = nets[me]->parameters();
    for (const torch::Tensor& parameter : pipe.parameters()) {
      for (size_t i = 0; i < all.size(); ++i) {
        if (all[i].is_same(parameter)) {
          EXPECT_LE(test::difference({parameter.grad()}, {expected[i]}), 1e-12);
        }
      }
    }
  });
  return said;
}

TEST_P(PipelineOfRanksOver, NamesTheStageThatStalledAndGoesOn) {
  auto alone = net_of(3);
  const torch::Tensor x = torch::randn({4, 3}, torch::kDouble);
  Faults none;
  Tensors out{x};
  for (const Block& block : blocks_with(alone, none)) out = block.forward(out);
  mean_of(out, {x}).backward();
  std::vector<torch::Tensor> expected;
  for (const torch::Tensor& parameter : alone->parameters()) expected.push_back(parameter.grad());
  const std::string stall = "forward of stage 1, micro-batch 1 (1F1): a stall: it took ";
  std::vector<std::string> said;
  // A machine may take longer over something else: then all times are longer.
  for (std::chrono::milliseconds timeout(100); timeout < std::chrono::seconds(15); timeout *= 2) {
    said = said_of_a_stall(GetParam(), timeout, x, expected);
    if (std::ranges::all_of(said, [&](const auto& text) { return text.find(stall) != text.npos; }))
      break;
  }
  EXPECT_THAT(said[0], HasSubstr(concat("the step was given up: rank 1 stalled: ", stall)));
  EXPECT_THAT(said[1], HasSubstr(concat("the step was given up: ", stall)));
  EXPECT_THAT(said[2], HasSubstr(concat("the step was given up: rank 1 stalled: ", stall)));
}

/// What the other ranks say of a step in which stage 1 blocks in a forward until both have.
std::vector<std::string> said_of_a_stage_that_blocks(const std::string& backend,
                                                     std::chrono::milliseconds timeout) {
  std::vector<torch::nn::Sequential> nets{net_of(4), net_of(4), net_of(4), net_of(4)};
  std::vector<std::string> said(4);
  std::latch others(3);
  const torch::Tensor x = torch::randn({4, 3}, torch::kDouble);
  const std::string error = test::error_of([&] {
    ThreadWorld(4, std::chrono::minutes(2), backend).run([&](const ProcessGroup& group) {
      const auto me = size_t(group.rank());
      Faults none;
      auto blocks = blocks_with(nets[me], none);
      int calls = 0;
      blocks[1].forward = [&, inner = blocks[1].forward](const Tensors& inputs) {
        if (++calls == 2) others.wait();
        return inner(inputs);
      };
      DistributedPipeline pipe(blocks,
                               group,
                               &mean_of,
                               {.micro_batches = 4, .timeout = timeout, .stall_timeout = timeout});
      said[me] = test::error_of([&] { pipe.step({x}, {x}); });
      if (me != 1) others.count_down();
    });
  });
  EXPECT_EQ(error, test::kNoError);
  return said;
}

TEST_P(PipelineOfRanksOver, EndsWhenAStageBlocksForEverAndNamesWhereItStands) {
  const std::string place = ", in forward of stage 1, micro-batch 1 (1F1);";
  std::vector<std::string> said;
  const auto is_named = [&](size_t rank) { return said[rank].find(place) != std::string::npos; };
  // A machine may take longer over something else: then all times are longer.
  for (std::chrono::milliseconds timeout(200); timeout < std::chrono::seconds(30); timeout *= 2) {
    said = said_of_a_stage_that_blocks(GetParam(), timeout);
    if (is_named(0) && is_named(2) && is_named(3)) break;
  }
  for (const size_t rank : {0, 2, 3}) {
    EXPECT_THAT(said[rank], AllOf(HasSubstr("rank 1 did not come: it is alive"), HasSubstr(place)));
    // Rank 3 waited for rank 2, which waited for rank 1.
    EXPECT_THAT(said[rank], Not(HasSubstr("rank 2 did not come: it")));
  }
}

// It does so when both others have said it.
TEST_P(PipelineOfRanksOver, EndsWhenARankDoesNotComeToAStepAndNamesIt) {
  std::vector<torch::nn::Sequential> nets{net_of(3), net_of(3), net_of(3)};
  std::vector<std::string> said(3);
  std::latch others(2);
  const torch::Tensor x = torch::randn({4, 3}, torch::kDouble);
  const std::string error = test::error_of([&] {
    ThreadWorld(3, std::chrono::hours(1), GetParam()).run([&](const ProcessGroup& group) {
      const auto me = size_t(group.rank());
      Faults none;
      DistributedPipeline pipe(blocks_with(nets[me], none),
                               group,
                               &mean_of,
                               {.micro_batches = 4, .stall_timeout = std::chrono::seconds(2)});
      if (me == 1) return others.wait();
      said[me] = test::error_of([&] { pipe.step({x}, {x}); });
      others.count_down();
    });
  });
  EXPECT_EQ(error, test::kNoError);
  for (const size_t rank : {0, 2})
    EXPECT_THAT(said[rank], ContainsRegex("rank ([02], )?1(, 2)? did not come"));
}

TEST(PipelineOfRanksFails, NamingTheRankThatHasEnded) {
  std::vector<torch::nn::Sequential> nets{net_of(3), net_of(3), net_of(3)};
  std::vector<Faults> faults(3);
  const torch::Tensor x = torch::randn({4, 3}, torch::kDouble);
  const std::string first = test::error_of([&] {
    ThreadWorld(3, std::chrono::minutes(1), "shm").run([&](ProcessGroup group) {
      const auto me = size_t(group.rank());
      DistributedPipeline pipe(
          blocks_with(nets[me], faults[me]), group, &mean_of, {.micro_batches = 4});
      pipe.step({x}, {x});
      if (group.rank() == 1) throw std::runtime_error("rank 1 loses its machine");
      const std::string error = test::error_of([&] { pipe.step({x}, {x}); });
      EXPECT_THAT(error, HasSubstr("rank 1"));
    });
  });
  EXPECT_THAT(first, HasSubstr("loses its machine"));
}

}  // namespace
}  // namespace muster
