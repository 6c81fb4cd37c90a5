#include "muster/pipeline/simulate/simulator.h"

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/pipeline/order/check.h"

namespace muster::pipeline {
namespace {

const ActionLists& runnable(const ActionLists& lists, Sends sends) {
  require_runnable(lists, {.sends = sends});
  return lists;
}

const StageTimes& times_of(const Dependency& node, std::span<const StageTimes> stages) {
  return stages[static_cast<size_t>(node.action.stage)];
}

double transfer_s(Transfer transfer, int64_t stage, std::span<const StageTimes> stages) {
  if (transfer == Transfer::kNone) return 0;
  const StageTimes& times = stages[static_cast<size_t>(stage)];
  return transfer == Transfer::kActivation ? times.activation_s : times.gradient_s;
}

double duration_s(const Dependency& node, std::span<const StageTimes> stages) {
  return times_of(node, stages).of(node.action.kind) +
         transfer_s(node.work, node.sender_stage, stages);
}

/// When all that it waits for is over.
double start_s(const Dependency& node,
               std::span<const double> ends,
               std::span<const StageTimes> stages) {
  double start = 0;
  if (node.before >= 0) start = ends[static_cast<size_t>(node.before)];
  if (node.other >= 0)
    start = std::max(
        start,
        ends[static_cast<size_t>(node.other)] + transfer_s(node.lag, node.sender_stage, stages));
  return start;
}

constexpr double kLongest = 1e100;    // sums of any number of them are finite
constexpr double kShortest = 1e-100;  // and quotients of two

void require_times(std::span<const StageTimes> stages, int64_t count) {
  if (static_cast<int64_t>(stages.size()) != count)
    throw usage_error({.refused = "the times do not suit the schedule",
                       .rule = "there is one StageTimes for each stage",
                       .value = concat(stages.size(), " for ", count, " stages")});
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const StageTimes& t = stages[stage];
    for (const double time : {t.forward_s,
                              t.backward_s,
                              t.input_s,
                              t.weight_s,
                              t.activation_s,
                              t.gradient_s,
                              t.average_s}) {
      if (time == 0 || (time >= kShortest && time <= kLongest)) continue;
      throw usage_error(
          {.refused = concat("a time of stage ", stage, " makes no sense"),
           .rule = concat("0, or from ", shortest(kShortest), " to ", shortest(kLongest)),
           .value = shortest(time)});
    }
  }
}

}  // namespace

Simulator::Simulator(const ActionLists& lists, Sends sends)
    : dependencies_(runnable(lists, sends), sends),
      stages_(lists.placement.stages()),
      ranks_(lists.placement.ranks()) {}

std::vector<double> Simulator::ends(std::span<const StageTimes> stages) const {
  std::vector<double> out(dependencies_.all().size());
  for (const int64_t index : dependencies_.order()) {
    const Dependency& node = dependencies_.all()[static_cast<size_t>(index)];
    out[static_cast<size_t>(index)] = start_s(node, out, stages) + duration_s(node, stages);
  }
  return out;
}

Timeline Simulator::run(std::span<const StageTimes> stages) const {
  require_times(stages, stages_);
  const std::vector<double> ended = ends(stages);
  Timeline timeline;
  timeline.ranks.resize(static_cast<size_t>(ranks_));
  for (size_t i = 0; i < ended.size(); ++i) {
    const Dependency& node = dependencies_.all()[i];
    timeline.ranks[static_cast<size_t>(node.rank)].push_back(
        {node.action, start_s(node, ended, stages), ended[i]});
  }
  return timeline;
}

double Simulator::step_s(std::span<const StageTimes> stages) const {
  require_times(stages, stages_);
  return std::ranges::max(ends(stages));
}

std::vector<int64_t> Simulator::critical_path(std::span<const StageTimes> stages) const {
  require_times(stages, stages_);
  const std::vector<double> ended = ends(stages);
  std::vector<int64_t> path;
  auto at = static_cast<int64_t>(std::ranges::max_element(ended) - ended.begin());
  while (at >= 0) {
    path.push_back(at);
    const Dependency& node = dependencies_.all()[static_cast<size_t>(at)];
    const bool waits_for_other =
        node.other >= 0 &&
        (node.before < 0 ||
         ended[static_cast<size_t>(node.other)] + transfer_s(node.lag, node.sender_stage, stages) >
             ended[static_cast<size_t>(node.before)]);
    at = waits_for_other ? node.other : node.before;
  }
  std::ranges::reverse(path);
  return path;
}

std::vector<StageTimes> equal_stages(int64_t count, const StageTimes& times) {
  return std::vector<StageTimes>(static_cast<size_t>(count), times);
}

}  // namespace muster::pipeline
