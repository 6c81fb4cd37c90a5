#include "muster/pipeline/partition/bounds.h"

#include <algorithm>
#include <limits>

namespace muster::pipeline {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

constexpr double ChainCounts::*kCounts[] = {&ChainCounts::forward,
                                            &ChainCounts::backward,
                                            &ChainCounts::input,
                                            &ChainCounts::weight,
                                            &ChainCounts::activation,
                                            &ChainCounts::gradient};

double& count_of(ChainCounts& counts, ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return counts.forward;
    case ActionKind::kBackward:
      return counts.backward;
    case ActionKind::kBackwardInput:
      return counts.input;
    default:
      return counts.weight;
  }
}

Chain critical_chain(const Simulator& simulator, const std::vector<StageTimes>& stages) {
  Chain chain(stages.size());
  const auto all = simulator.dependencies().all();
  int64_t last = -1;
  for (const int64_t index : simulator.critical_path(stages)) {
    const Dependency& node = all[static_cast<size_t>(index)];
    if (is_compute(node.action.kind))
      count_of(chain[static_cast<size_t>(node.action.stage)], node.action.kind) += 1;
    ChainCounts& sender = chain[static_cast<size_t>(node.sender_stage)];
    if (last >= 0 && last == node.other && last != node.before) {
      sender.activation += node.lag == Transfer::kActivation ? 1 : 0;
      sender.gradient += node.lag == Transfer::kGradient ? 1 : 0;
    }
    last = index;
  }
  return chain;
}

StageTimes scaled(const StageTimes& times, double factor) {
  return {.forward_s = times.forward_s * factor,
          .backward_s = times.backward_s * factor,
          .input_s = times.input_s * factor,
          .weight_s = times.weight_s * factor};
}

ChainCounts least_of(const Chain& chain) {
  ChainCounts least = chain.front();
  for (const ChainCounts& counts : chain) {
    for (const auto count : kCounts) least.*count = std::min(least.*count, counts.*count);
  }
  least.activation = least.gradient =
      0;  // the last stage sends no activation, the first no gradient
  return least;
}

ChainCounts difference(const ChainCounts& a, const ChainCounts& b) {
  ChainCounts out = a;
  for (const auto count : kCounts) out.*count -= b.*count;
  return out;
}

}  // namespace

StepBounds::StepBounds(const BlockSums& sums, const Simulator& simulator, const ActionLists& lists)
    : sums_(sums),
      placement_(lists.placement),
      stages_(placement_.stages()),
      total_(sums.times(0, sums.count())) {
  count_work(lists);
  find_chains(simulator);
  for (const Chain& chain : chains_) bases_.push_back(least_of(chain));
  fill_rests();
  fill_slowest();
}

void StepBounds::find_chains(const Simulator& simulator) {
  const auto count = static_cast<size_t>(stages_);
  const StageTimes even = scaled(total_, 1. / static_cast<double>(stages_));
  const auto add = [&](const std::vector<StageTimes>& stages) {
    const Chain chain = critical_chain(simulator, stages);
    if (std::ranges::find(chains_, chain) == chains_.end()) chains_.push_back(chain);
  };
  add(std::vector<StageTimes>(count, even));
  for (const double slower : {1.01, 1.3, 4.}) {
    for (size_t slow = 0; slow < count; ++slow) {
      std::vector<StageTimes> stages(count, even);
      stages[slow] = scaled(even, slower);
      add(stages);
    }
  }
}

template <class Cost, class Combine>
std::vector<double> StepBounds::best_rests(Cost&& cost, Combine&& combine) const {
  const int64_t blocks = sums_.count();
  std::vector<double> table(cell(stages_, blocks) + 1, kNever);
  table[cell(stages_, blocks)] = 0;
  for (int64_t stage = stages_; stage-- > 0;) {
    for (int64_t begin = stage; begin < blocks; ++begin) {
      double best = kNever;
      for (int64_t end = begin + 1; end <= blocks; ++end) {
        const double rest = table[cell(stage + 1, end)];
        if (rest < kNever)
          best = std::min(best, combine(cost(stage, sums_.times(begin, end)), rest));
      }
      table[cell(stage, begin)] = best;
    }
  }
  return table;
}

void StepBounds::fill_rests() {
  for (const Chain& chain : chains_) {
    rests_.push_back(best_rests(
        [&](int64_t stage, const StageTimes& times) {
          return chain[static_cast<size_t>(stage)].of(times);
        },
        [](double own, double rest) { return own + rest; }));
  }
}

double StepBounds::slowest_alone(int64_t stage, const StageTimes& times) const {
  double most = 0;
  for (size_t c = 0; c < chains_.size(); ++c) {
    const ChainCounts more = difference(chains_[c][static_cast<size_t>(stage)], bases_[c]);
    most = std::max(most, bases_[c].of(total_) + more.of(times));
  }
  return most;
}

void StepBounds::fill_slowest() {
  slowest_ = best_rests(
      [&](int64_t stage, const StageTimes& times) { return slowest_alone(stage, times); },
      [](double own, double rest) { return std::max(own, rest); });
}

void StepBounds::count_work(const ActionLists& lists) {
  work_.resize(static_cast<size_t>(stages_));
  for (const auto& actions : lists.ranks) {
    for (const Action& action : actions) {
      if (is_compute(action.kind))
        count_of(work_[static_cast<size_t>(action.stage)], action.kind) += 1;
    }
  }
}

double StepBounds::fullest_rank(const std::vector<StageTimes>& begun, int64_t next) const {
  std::vector<double> loads(static_cast<size_t>(placement_.ranks()));
  for (size_t s = 0; s < begun.size(); ++s)
    loads[static_cast<size_t>(placement_.rank_of(static_cast<int64_t>(s)))] +=
        work_[s].of(begun[s]);
  double level = std::ranges::max(loads);
  std::vector<double> open;  // loads of the ranks that still get something
  for (int64_t rank = 0; rank < placement_.ranks(); ++rank) {
    if (placement_.stages_of(rank).back() >= static_cast<int64_t>(begun.size()))
      open.push_back(loads[static_cast<size_t>(rank)]);
  }
  std::ranges::sort(open);
  double poured = least_of(work_).of(sums_.times(next, sums_.count()));
  for (size_t i = 0; i < open.size(); ++i) {
    poured += open[i];  // the work of the i + 1 emptiest, with what is poured over them
    const double reached = poured / static_cast<double>(i + 1);
    if (i + 1 == open.size() || reached <= open[i + 1]) return std::max(level, reached);
  }
  return level;
}

double StepBounds::at_least(const std::vector<StageTimes>& begun, int64_t next) const {
  const auto stage = static_cast<int64_t>(begun.size());
  double most = std::max(slowest_[cell(stage, next)], fullest_rank(begun, next));
  for (size_t c = 0; c < chains_.size(); ++c) {
    double sum = rests_[c][cell(stage, next)];
    for (size_t s = 0; s < begun.size(); ++s) sum += chains_[c][s].of(begun[s]);
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace muster::pipeline
