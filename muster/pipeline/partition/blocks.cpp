#include "muster/pipeline/partition/blocks.h"

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/pipeline/simulate/waiting_letters.h"

namespace muster::pipeline {
namespace {

constexpr double BlockCosts::*kCosts[] = {&BlockCosts::forward_s,
                                          &BlockCosts::backward_s,
                                          &BlockCosts::input_s,
                                          &BlockCosts::weight_s,
                                          &BlockCosts::activation_s,
                                          &BlockCosts::gradient_s,
                                          &BlockCosts::activation_bytes,
                                          &BlockCosts::kept_bytes,
                                          &BlockCosts::caught_bytes,
                                          &BlockCosts::work_bytes,
                                          &BlockCosts::input_bytes,
                                          &BlockCosts::output_bytes,
                                          &BlockCosts::parameter_bytes,
                                          &BlockCosts::handed_bytes,
                                          &BlockCosts::gradient_bytes};

void require_cost(double cost, size_t block) {
  if (std::isfinite(cost) && cost >= 0) return;
  throw usage_error({.refused = concat("a cost of block ", block, " makes no sense"),
                     .rule = "it is finite and at least 0",
                     .value = shortest(cost)});
}

int64_t end_of(const Split& split, size_t stage, const BlockSums& sums) {
  return stage + 1 < split.size() ? split[stage + 1] : sums.count();
}

}  // namespace

BlockSums::BlockSums(std::span<const BlockCosts> blocks) : blocks_(blocks.begin(), blocks.end()) {
  before_.resize(blocks.size() + 1);
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (const auto cost : kCosts) {
      require_cost(blocks[i].*cost, i);
      before_[i + 1].*cost = before_[i].*cost + blocks[i].*cost;
    }
  }
}

StageTimes BlockSums::times(int64_t begin, int64_t end) const {
  const auto b = static_cast<size_t>(begin), e = static_cast<size_t>(end);
  const auto sum = [&](double BlockCosts::*cost) { return before_[e].*cost - before_[b].*cost; };
  return {.forward_s = sum(&BlockCosts::forward_s),
          .backward_s = sum(&BlockCosts::backward_s),
          .input_s = sum(&BlockCosts::input_s),
          .weight_s = sum(&BlockCosts::weight_s),
          .activation_s = end < count() ? blocks_[e - 1].activation_s : 0,
          .gradient_s = begin > 0 ? blocks_[b - 1].gradient_s : 0};
}

StageBytes BlockSums::bytes(int64_t begin, int64_t end, const StageSetting& setting) const {
  const BlockCosts &b = before_[static_cast<size_t>(begin)], &e = before_[static_cast<size_t>(end)];
  const double ends = begin == end ? 0
                                   : blocks_[static_cast<size_t>(begin)].input_bytes +
                                         blocks_[static_cast<size_t>(end) - 1].output_bytes;
  // The gradient that came in stays until the backward of all blocks is over; the last one's own
  // work has it already.
  const double came_in =
      begin == end || end == count() ? 0 : blocks_[static_cast<size_t>(end) - 1].gradient_bytes;
  double work = 0, caught = 0, rise = 0;  // caught: of the blocks from here on
  for (int64_t i = end - 1; i >= begin; --i) {
    const BlockCosts& block = blocks_[static_cast<size_t>(i)];
    const double here = block.work_bytes + (i + 1 < end ? came_in : 0);
    caught += block.caught_bytes;
    work = std::max(work, here);
    rise = std::max(rise, caught + here);
  }
  const double shared =
      setting.shares_input && begin > 0 ? blocks_[static_cast<size_t>(begin) - 1].handed_bytes : 0;
  const double activation = e.activation_bytes - b.activation_bytes + ends - shared +
                            (begin == 0 && end > 1 && setting.splits_backward ? first_output() : 0);
  return {.activation = std::max(0.0, activation),
          .kept = e.kept_bytes - b.kept_bytes,
          .caught = e.caught_bytes - b.caught_bytes,
          .work = work,
          .input_rise = rise,
          .gradient = begin > 0 ? blocks_[static_cast<size_t>(begin) - 1].gradient_bytes : 0};
}

// See Note [The first stage].
double BlockSums::first_output() const {
  return blocks_[0].output_bytes > 0 && blocks_[1].input_bytes > 0 ? blocks_[0].handed_bytes : 0;
}

double BlockSums::parameter_bytes(int64_t begin, int64_t end) const {
  return before_[static_cast<size_t>(end)].parameter_bytes -
         before_[static_cast<size_t>(begin)].parameter_bytes;
}

StageSetting setting_of(const ActionLists& lists, int64_t stage, bool splits_backward) {
  return {.shares_input = stage > 0 && !lists.placement.crosses_after(stage - 1),
          .splits_backward = splits_backward};
}

std::vector<StageTimes> stage_times(const BlockSums& sums, const Split& split) {
  std::vector<StageTimes> out;
  for (size_t s = 0; s < split.size(); ++s)
    out.push_back(sums.times(split[s], end_of(split, s, sums)));
  return out;
}

std::vector<double> rank_bytes(const BlockSums& sums,
                               const Split& split,
                               const ActionLists& lists) {
  return rank_bytes(sums, split, lists, Simulator(lists));
}

std::vector<double> rank_bytes(const BlockSums& sums,
                               const Split& split,
                               const ActionLists& lists,
                               const Simulator& simulator) {
  std::vector<StageBytes> bytes;
  const bool splits_backward = lists.splits_backward();
  for (size_t s = 0; s < split.size(); ++s)
    bytes.push_back(sums.bytes(split[s],
                               end_of(split, s, sums),
                               setting_of(lists, static_cast<int64_t>(s), splits_backward)));
  std::vector<double> out = peak_bytes(lists, bytes, simulator.run(stage_times(sums, split)));
  for (size_t s = 0; s < split.size(); ++s) {
    const int64_t rank = lists.placement.rank_of(static_cast<int64_t>(s));
    out[static_cast<size_t>(rank)] += sums.parameter_bytes(split[s], end_of(split, s, sums));
  }
  return out;
}

}  // namespace muster::pipeline
