// What it shows: a pipeline planned without a device. From what each block of a model costs, the
//     schedule, the number of micro-batches and the cuts between stages that make a step shortest
//     within the memory of each rank; then the step as it will run.
// How to run: build/bin/examples/pipeline_plan
// Expected output:
//     zb1p, 2 stages on 2 ranks, 8 micro-batches: step 767ms, bubble 8.9 %, at most
//       102ms idle on a rank
//     +---------+----------+--------------+---------------+--------------+
//     |   stage | blocks   |   forward_ms |   backward_ms | of slowest   |
//     |---------+----------+--------------+---------------+--------------|
//     |       0 | 0-5      |        27.45 |          54.9 | 89 %         |
//     |       1 | 6-9      |        30.8  |          61.6 | 100 %        |
//     +---------+----------+--------------+---------------+--------------+
//     bytes by rank: 1.3 GiB, 998 MiB
//     rank 0  F0 F1 ....I0 W0 F2 I1 W1 F3 I2 W2 F4 I3 W3 F5 .I4 W4 F6 .I5 W5 F7 .I6 W6 ....I7 W7 .
//     rank 1  ...F0 I0- F1 I1- W0 F2 I2- W1 F3 I3- W2 F4 I4- W3 F5- I5 W4 F6- I6 W5 F7- I7 W6 W7-
//     rank 0 has 41 actions, the first three 0F0, 0SEND_F0, 0F1
#include <cstdio>

#include "muster/pipeline.h"

using namespace muster::pipeline;

constexpr int64_t kRanks = 2, kBlocks = 10;
constexpr double kGiB = 1024. * 1024 * 1024;

// An embedding, eight layers, and a head that is as heavy as three of them. Measure your own: the
// time of a block's forward, of its backward and of the halves of it, for one micro-batch.
std::vector<BlockCosts> blocks_for(int64_t micro_batches) {
  const double part = 1. / static_cast<double>(micro_batches), per_call_s = 0.0002;
  std::vector<BlockCosts> blocks(kBlocks);
  for (int64_t i = 0; i < kBlocks; ++i) {
    const double weight = i == 0 ? 0.25 : i == kBlocks - 1 ? 3 : 1;
    BlockCosts& block = blocks[static_cast<size_t>(i)];
    block.forward_s = 0.040 * weight * part + per_call_s;
    block.input_s = block.forward_s;
    block.weight_s = block.forward_s;
    block.backward_s = block.input_s + block.weight_s;
    block.activation_s = block.gradient_s = 0.004 * part;  // to another rank
    block.activation_bytes = 0.5 * kGiB * part;
    block.kept_bytes = 0.5 * block.activation_bytes;
    block.parameter_bytes = 0.1 * kGiB * weight;
  }
  return blocks;
}

int main() {
  const auto plan = choose_plan(
      blocks_for,
      {.ranks = kRanks, .schedules = {"gpipe", "1f1b", "zb1p"}, .micro_batches = {4, 8}},
      {.memory_bytes = {1.5 * kGiB, 1.5 * kGiB}});
  if (!plan) {
    std::printf("nothing fits\n");
    return 1;
  }
  std::printf("%s", explain(*plan, kBlocks).c_str());
  const Schedule schedule = make_schedule(plan->schedule, plan->sizes);
  const Timeline step = Simulator(schedule.lists).run(plan->stages);
  std::printf("%s", draw_text(step, {.columns = 92}).c_str());
  // What each rank carries out: messages between ranks, and gradients averaged over replicas.
  const ActionLists lists = lower(with_averages(schedule.lists), Sends::kBuffered);
  std::printf("rank 0 has %zu actions, the first three %s, %s, %s\n",
              lists.ranks[0].size(),
              to_text(lists.ranks[0][0]).c_str(),
              to_text(lists.ranks[0][1]).c_str(),
              to_text(lists.ranks[0][2]).c_str());
}
