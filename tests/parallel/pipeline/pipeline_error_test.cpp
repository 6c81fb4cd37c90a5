// Pipelines when something is wrong: refusals, stages that throw or stall, and what comes after.
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/pipeline/pipeline.h"

#include "tests/parallel/pipeline/nets.h"
#include "tests/support/distance.h"
#include "tests/support/error_of.h"

namespace muster {
namespace {

using parallel::Block;
using parallel::blocks_of;
using parallel::Pipeline;
using parallel::PipelineOptions;
using parallel::Tensors;
using test::Chain;
using test::difference;
using test::gradients_of;
using test::gradients_on_one_device;
using test::ranks_on_cpu;
using test::refusal_of;
using test::squares;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refused(PipelineOptions options, int64_t ranks = 2, int blocks = 4) {
  return refusal_of([&] {
    Chain chain(blocks, 3);
    const Pipeline pipe(blocks_of(chain.net), ranks_on_cpu(ranks), &squares, std::move(options));
  });
}

TEST(PipelineErrors, WhatCannotBeAPipelineIsRefused) {
  EXPECT_THAT(refused({}, 0), HasSubstr("one rank at least"));
  EXPECT_THAT(refused({.first_block = {0, 2, 2}}), HasSubstr("rise"));
  EXPECT_THAT(refused({.first_block = {1, 2}}), HasSubstr("got [1, 2]"));
  EXPECT_THAT(refused({.first_block = {0, 4}}), HasSubstr("among the 4 blocks"));
  EXPECT_THAT(refused({.first_block = {0, 1, 2}}), HasSubstr("stages"));
  EXPECT_THAT(refused({.schedule = "2f2b", .first_block = {0, 2}}), HasSubstr("2f2b"));
  EXPECT_THAT(refused({.micro_batches = 0, .first_block = {0, 2}}), HasSubstr("micro-batch"));
  EXPECT_THAT(refused({.first_block = {0, 2}, .tied = {{"9.weight", "0.weight"}}}),
              HasSubstr("tied parameter 9.weight"));
  EXPECT_THAT(refused({.first_block = {0, 2}, .tied = {{"0.weight", "0.weight"}}}),
              HasSubstr("follows one other"));
  EXPECT_THAT(refused({.first_block = {0, 2}, .tied = {{"0.bias", "0.weight"}}}),
              HasSubstr("shape"));
}

TEST(PipelineErrors, WhatWouldBeGuessedIsRefused) {
  EXPECT_THAT(refused({.first_block = {0, 2}, .checkpointed = {true}}), HasSubstr("1 of 4"));
  EXPECT_THAT(refused({.first_block = {0, 2}, .stall_timeout = std::chrono::milliseconds(0)}),
              HasSubstr("above 0"));
  EXPECT_THAT(refused({.first_block = {0, 2}, .threads_per_rank = -1}), HasSubstr("(got -1)"));
  Chain chain(2, 3);
  std::vector<Block> twice = blocks_of(chain.net);
  twice[1].name = "0";
  EXPECT_THAT(refusal_of([&] { Pipeline(twice, ranks_on_cpu(2), &squares); }),
              HasSubstr("two blocks of one name"));
  Pipeline pipe(blocks_of(chain.net), ranks_on_cpu(2), &squares);
  const torch::Tensor x = chain.inputs(4), y = chain.targets(4);
  EXPECT_THAT(refusal_of([&] { pipe.step({x}, {y}, INFINITY); }), HasSubstr("finite"));
  EXPECT_THAT(refusal_of([&] { pipe.step({x.clone().requires_grad_()}, {y}); }),
              HasSubstr("needs a gradient"));
  const torch::nn::Linear one(3, 3);
  EXPECT_THAT(refusal_of([&] {
                parallel::block("one", one).forward({x.to(torch::kFloat), x});
              }),
              HasSubstr("2 tensors"));
  // A dropout that is run again on the generator that all ranks draw from.
  const torch::nn::Sequential drops(torch::nn::Linear(3, 3), torch::nn::Dropout(0.5));
  EXPECT_THAT(
      refusal_of([&] {
        Pipeline(blocks_of(drops), ranks_on_cpu(2), &squares, {.checkpointed = {true, true}});
      }),
      HasSubstr("block 1 is checkpointed"));
}

TEST(PipelineErrors, WhatFailsBehindTheLastBackwardLeavesNoGradientEither) {
  Chain chain(2, 3);
  Pipeline pipe(blocks_of(chain.net),
                ranks_on_cpu(2),
                [](const Tensors& out, const Tensors& target) { return squares(out, target); },
                {.micro_batches = 2, .keeps_outputs = true});
  const torch::Tensor x = chain.inputs(4), y = chain.targets(4);
  pipe.step({x}, {y});
  // Outputs of unlike widths cannot be put together.
  std::vector<Block> blocks = blocks_of(chain.net);
  std::atomic<int> calls = 0;
  blocks[1].forward = [&calls, inner = blocks[1].forward](const Tensors& in) -> Tensors {
    const Tensors out = inner(in);
    return {calls++ == 0 ? out[0] : out[0].narrow(1, 0, 1)};
  };
  Pipeline odd(blocks,
               ranks_on_cpu(2),
               [](const Tensors& out, const Tensors&) { return out[0].sum(); },
               {.micro_batches = 2, .keeps_outputs = true});
  EXPECT_NE(test::error_of([&] { odd.step({x}, {y}); }), test::kNoError);
  for (const torch::Tensor& parameter : odd.parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(PipelineErrors, AParameterOfTwoStagesIsRefused) {
  torch::nn::Linear layer(3, 3);
  const auto make = [&](const pipeline::Split& first) {
    Pipeline pipe({parallel::block("a", layer), parallel::block("b", layer)},
                  ranks_on_cpu(int64_t(first.size())),
                  &squares,
                  {.first_block = first});
  };
  EXPECT_THAT(refusal_of([&] { make({0, 1}); }), HasSubstr("a.weight and b.weight"));
  make({0});  // in one stage it is one
}

TEST(PipelineErrors, BatchesAndLossesThatCannotBeAreRefusedAndThePipelineGoesOn) {
  Chain chain(4, 5);
  bool wrong = true;
  const auto loss = [&](const Tensors& out, const Tensors& target) {
    return wrong ? (out[0] - target[0]).pow(2) : squares(out, target);
  };
  Pipeline pipe(
      blocks_of(chain.net), ranks_on_cpu(2), loss, {.micro_batches = 2, .first_block = {0, 2}});
  const torch::Tensor x = chain.inputs(4), y = chain.targets(4);
  EXPECT_THAT(refusal_of([&] { pipe.step({x}, {y.narrow(0, 0, 3)}); }), HasSubstr("rows"));
  EXPECT_THAT(refusal_of([&] { pipe.step({x.narrow(0, 0, 0)}, {}); }), HasSubstr("empty batch"));
  EXPECT_THAT(refusal_of([&] { pipe.step(std::vector<parallel::MicroBatch>{}); }),
              HasSubstr("one at least"));
  EXPECT_THAT(refusal_of([&] { pipe.step({{{x}, {y}, -1}}); }), HasSubstr("count -1"));
  {
    const torch::NoGradGuard no_grad;
    EXPECT_THAT(refusal_of([&] { pipe.step({x}, {y}); }), HasSubstr("grad mode"));
  }
  EXPECT_THAT(refusal_of([&] { pipe.step({x}, {y}); }),
              AllOf(HasSubstr("rank 1 (cpu): forward of stage 1, micro-batch 0 (1F0)"),
                    HasSubstr("one number")));
  wrong = false;
  const auto expected = gradients_on_one_device(chain, x, y);
  pipe.step({x}, {y});
  EXPECT_LE(difference(gradients_of(chain.net->parameters()), expected), 1e-12);
}

/// A chain whose blocks call `visit` first.
struct Visited {
  explicit Visited(int blocks, std::function<void(size_t block)> visit) : chain(blocks, 7) {
    for (const Block& inner : blocks_of(chain.net)) {
      const size_t number = this->blocks.size();
      this->blocks.push_back({inner.name, inner.modules, [inner, number, visit](const Tensors& in) {
                                visit(number);
                                return inner.forward(in);
                              }});
    }
  }
  Chain chain;
  std::vector<Block> blocks;
};

TEST(PipelineErrors, AStageThatThrowsIsNamedWithItsActionAndTheNextStepIsWhole) {
  for (const std::string schedule : {"gpipe", "1f1b", "zb1p"}) {
    for (const size_t bad : {0, 1, 2}) {
      std::atomic<bool> fails = true;
      std::atomic<int> count = 0;
      Visited visited(3, [&](size_t block) {
        if (block == bad && fails && ++count == 2) throw std::out_of_range("no such row");
      });
      Pipeline pipe(
          visited.blocks, ranks_on_cpu(3), &squares, {.schedule = schedule, .micro_batches = 4});
      const torch::Tensor x = visited.chain.inputs(8), y = visited.chain.targets(8);
      bool nested = false;
      try {
        pipe.step({x}, {y});
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.what(),
                  concat("rank ",
                         bad,
                         " (cpu): forward of stage ",
                         bad,
                         ", micro-batch 1 (",
                         bad,
                         "F1): no such row"));
        const std::exception* cause = &error;
        try {
          try {
            std::rethrow_if_nested(error);
          } catch (const Error& inner) {
            cause = &inner;
            std::rethrow_if_nested(inner);
          }
        } catch (const std::out_of_range&) {
          nested = true;
        }
        EXPECT_NE(cause, nullptr);
      }
      EXPECT_TRUE(nested);
      for (const torch::Tensor& parameter : pipe.parameters())
        EXPECT_FALSE(parameter.grad().defined()) << "gradients of a failed step stay";
      fails = false;
      const auto expected = gradients_on_one_device(visited.chain, x, y);
      pipe.step({x}, {y});
      EXPECT_LE(difference(gradients_of(visited.chain.net->parameters()), expected), 1e-12);
    }
  }
}

/// A gate that a stage waits at.
struct Gate {
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return open; });
  }
  void release() {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
};

/// A pipeline of two ranks whose first step was given up, and what was said of it.
struct Stalled {
  struct Stage {
    Gate gate, left;
    std::atomic<bool> entered = false;
  };

  explicit Stalled(std::chrono::milliseconds timeout) {
    pipe.set_stall_timeout(timeout);
    said = refusal_of([&] { pipe.step({x}, {y}); }, ErrorKind::kEnvironment);
  }

  std::shared_ptr<Stage> stage = std::make_shared<Stage>();
  Visited visited = with_gate();
  torch::Tensor x = visited.chain.inputs(4), y = visited.chain.targets(4);
  Pipeline pipe{visited.blocks, ranks_on_cpu(2), &squares, {.micro_batches = 1}};
  std::string said;

 private:
  Visited with_gate() const {
    Visited made(2, [stage = stage](size_t block) {
      if (block != 1) return;
      stage->entered = true;
      stage->gate.wait();
    });
    made.blocks[1].forward = [stage = stage, inner = made.blocks[1].forward](const Tensors& in) {
      const Tensors out = inner(in);
      stage->left.release();
      return out;
    };
    return made;
  }
};

/// One that stands in stage 1's forward. Where rank 0, which has nothing to do meanwhile but to wait,
/// gets no core for as long as the timeout, another is made, with twice that.
std::unique_ptr<Stalled> stalled_in_stage_1() {
  for (auto timeout = std::chrono::milliseconds(20);; timeout *= 2) {
    auto made = std::make_unique<Stalled>(timeout);
    const bool is_it = made->said.find("forward of stage 1") != std::string::npos;
    if ((is_it && made->stage->entered) || timeout > std::chrono::seconds(2)) return made;
    made->stage->gate.release();
  }
}

/// What a further step says, once it says something else than `words`; `words` if it never does.
std::string said_beyond(Stalled& stalled, const std::string& words) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < until) {
    std::string said = test::error_of([&] { stalled.pipe.step({stalled.x}, {stalled.y}); });
    if (said.find(words) == std::string::npos) return said;
  }
  return words;
}

TEST(PipelineErrors, AStageThatStallsIsNamedLeftBehindAndWaitedForLater) {
  const auto stalled = stalled_in_stage_1();
  EXPECT_THAT(stalled->said,
              HasSubstr("rank 1 (cpu): forward of stage 1, micro-batch 0 (1F0): a stall"));
  // Rank 0 was told to come back, and does so when it gets a core.
  EXPECT_THAT(said_beyond(*stalled, "rank 0 (cpu) is not free"),
              HasSubstr("rank 1 (cpu) is not free"));
  stalled->stage->gate.release();
  stalled->pipe.set_stall_timeout(std::chrono::minutes(30));
  EXPECT_EQ(said_beyond(*stalled, "is not free"), test::kNoError);
  Chain& chain = stalled->visited.chain;
  const auto found = gradients_of(chain.net->parameters());
  EXPECT_LE(difference(found, gradients_on_one_device(chain, stalled->x, stalled->y)), 1e-12);
}

TEST(PipelineErrors, APipelineThatGoesWhileAStageStallsLeavesItItsMemory) {
  auto stalled = stalled_in_stage_1();
  EXPECT_THAT(stalled->said, HasSubstr("a stall"));
  const auto stage = stalled->stage;
  ASSERT_TRUE(stage->entered);
  stalled = nullptr;
  stage->gate.release();
  stage->left.wait();  // it computed to its end on modules that nobody else has any more
}

TEST(PipelineErrors, NothingIsHeldForEverByAStepThatStalled) {
  auto stalled = stalled_in_stage_1();
  const std::weak_ptr<torch::nn::Module> module = stalled->visited.blocks[0].modules[0];
  EXPECT_NE(stalled->said, test::kNoError);
  stalled->stage->gate.release();
  stalled->pipe.set_stall_timeout(std::chrono::minutes(30));
  EXPECT_EQ(said_beyond(*stalled, "is not free"), test::kNoError);
  stalled = nullptr;
  EXPECT_TRUE(module.expired());
}

}  // namespace
}  // namespace muster
