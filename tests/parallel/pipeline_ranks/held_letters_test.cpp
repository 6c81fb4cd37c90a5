// What a rank holds of what it has sent: by who comes late, and at most.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/parallel/pipeline_ranks/distributed_pipeline.h"

#include "tests/parallel/pipeline/nets.h"
#include "tests/parallel/pipeline_ranks/ranks.h"
#include "tests/support/counting_allocator.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using distributed::ThreadWorld;
using parallel::DistributedPipeline;
using parallel::DistributedPipelineOptions;
using parallel::Tensors;
using test::squares;
using test::Tally;

constexpr int64_t kMicroBatches = 8, kLetterRows = 64, kWidth = 128;
constexpr int64_t kLetter = kLetterRows * kWidth * static_cast<int64_t>(sizeof(float));
constexpr int64_t kAhead = 2;        // micro-batches that the first rank has made besides
constexpr int64_t kHeads = 4 * 512;  // of letters, on the host

enum class Late { kFirst, kSecond };

/// The bytes that the second rank holds at most in a step, beside what it had before, where one of
/// the two waits for the other in each backward.
int64_t peak_of_second(Late late, bool holds) {
  test::MemoryCount memory;
  torch::manual_seed(1);
  std::vector<std::vector<parallel::Block>> blocks;
  for (int rank = 0; rank < 2; ++rank) {
    blocks.push_back(parallel::blocks_of(
        torch::nn::Sequential(torch::nn::Linear(4, kWidth), torch::nn::Linear(kWidth, 1))));
  }
  std::atomic<int64_t> first_taken{0}, second_made{0};
  std::atomic<bool> waits{false};
  const auto wait_for = [&](const std::atomic<int64_t>& count, int64_t number) {
    if (!waits) return;
    for (int64_t now = count; now < number; now = count) count.wait(now);
  };
  const auto tell = [](std::atomic<int64_t>& count) {
    ++count;
    count.notify_all();
  };
  // Gradients come to the first block's output on rank 0, and leave the second's input on rank 1.
  const auto forward = blocks[0][0].forward;
  blocks[0][0].forward = [&, forward](const Tensors& inputs) {
    Tensors outputs = forward(inputs);
    outputs[0].register_hook([&](const at::Tensor&) {
      tell(first_taken);
      if (late == Late::kFirst)
        wait_for(second_made, std::min(first_taken + kAhead, kMicroBatches));
    });
    return outputs;
  };
  const auto last = blocks[1][1].forward;
  blocks[1][1].forward = [&, last](const Tensors& inputs) {
    inputs[0].register_hook([&](const at::Tensor&) {
      if (late == Late::kSecond) wait_for(first_taken, second_made);
      tell(second_made);
    });
    return last(inputs);
  };
  const torch::Tensor x = torch::randn({kMicroBatches * kLetterRows, 4}),
                      y = torch::randn({kMicroBatches * kLetterRows, 1});
  int64_t most = 0;
  ThreadWorld(2).run([&](ProcessGroup group) {
    DistributedPipeline pipe(blocks[static_cast<size_t>(group.rank())],
                             group,
                             &squares,
                             {.schedule = "1f1b:eager=true", .micro_batches = kMicroBatches});
    pipe.hold_letters(holds);
    test::step_of(pipe, x, y);  // what the first one takes besides
    group.barrier();
    if (group.rank() == 0) {
      first_taken = second_made = 0;
      waits = true;
    }
    group.barrier();
    Tally& tally = Tally::of_thread();
    const int64_t before = tally.live();
    tally.start_peak();
    test::step_of(pipe, x, y);
    if (group.rank() == 1) most = tally.peak() - before;
  });
  return most;
}

TEST(HeldLetters, AreTheMostThatAnyoneWhoComesLateLeavesThere) {
  const int64_t held = peak_of_second(Late::kSecond, true);
  EXPECT_NEAR(peak_of_second(Late::kFirst, true), held, kHeads);
  EXPECT_GE(held + kHeads, peak_of_second(Late::kFirst, false));
  EXPECT_GE(held + kHeads, peak_of_second(Late::kSecond, false) + kLetter);
}

// Between threads an output lies where the stage has it anyway.
TEST(HeldLetters, WhatStaysUnchangedIsSentWithoutACopy) {
  test::MemoryCount memory;
  ThreadWorld(2).run([&](ProcessGroup group) {
    if (group.rank() == 0) {
      const torch::Tensor tensor = torch::arange(1 << 16);
      const int64_t bytes = tensor.numel() * tensor.element_size();
      const int64_t before = Tally::of_thread().live();
      group.send(tensor, 1, {.tag = 1, .stays_unchanged = true});
      EXPECT_LT(Tally::of_thread().live() - before, bytes);
      group.send(tensor.t(), 1, {.tag = 2});
      EXPECT_GE(Tally::of_thread().live() - before, bytes);
      // What is not in one piece is copied all the same.
      group.send(tensor.slice(0, 0, 1 << 16, 2), 1, {.tag = 3, .stays_unchanged = true});
      group.barrier();
    } else {
      group.barrier();
      const torch::Tensor into = torch::empty({1 << 16}, torch::kLong);
      for (const int tag : {1, 2}) {
        into.zero_();
        group.recv(into, 0, {.tag = tag});
        EXPECT_TRUE(torch::equal(into, torch::arange(1 << 16)));
      }
      const torch::Tensor half = torch::empty({1 << 15}, torch::kLong);
      group.recv(half, 0, {.tag = 3});
      EXPECT_TRUE(torch::equal(half, 2 * torch::arange(1 << 15)));
    }
  });
}

}  // namespace
}  // namespace muster
