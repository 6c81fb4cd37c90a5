#include "muster/pipeline/order/lower.h"

#include <algorithm>
#include <optional>

#include "muster/base/error.h"
#include "muster/pipeline/order/check.h"

namespace muster::pipeline {
namespace {

using enum ActionKind;

bool goes_backward(ActionKind kind) { return kind == kBackward || kind == kBackwardInput; }

/// What is received for an action from another rank.
std::optional<Action> received_for(const Action& action, const Placement& placement) {
  if (action.kind == kForward && action.stage > 0 && placement.crosses_after(action.stage - 1))
    return Action{kReceiveActivation, action.stage, action.micro_batch};
  if (goes_backward(action.kind) && placement.crosses_after(action.stage))
    return Action{kReceiveGradient, action.stage, action.micro_batch};
  return {};
}

/// What an action makes for another rank.
std::optional<Action> sent_after(const Action& action, const Placement& placement) {
  if (action.kind == kForward && placement.crosses_after(action.stage))
    return Action{kSendActivation, action.stage, action.micro_batch};
  if (goes_backward(action.kind) && action.stage > 0 && placement.crosses_after(action.stage - 1))
    return Action{kSendGradient, action.stage, action.micro_batch};
  return {};
}

void lower_buffered(const ActionLists& lists, ActionLists& out) {
  for (size_t rank = 0; rank < lists.ranks.size(); ++rank) {
    auto& to = out.ranks[rank];
    for (const Action& action : lists.ranks[rank]) {
      if (const auto received = received_for(action, lists.placement)) to.push_back(*received);
      to.push_back(action);
      if (const auto sent = sent_after(action, lists.placement)) to.push_back(*sent);
    }
  }
}

struct Event {
  int64_t time;
  bool starts;  // messages, at the end of what makes them, come first
  int64_t index;
  auto operator<=>(const Event&) const = default;
};

/// Starts of actions and ends of those that send, by time: an order in which one rank alone could
/// do everything, so that nobody waits in a circle.
std::vector<Event> events_of(const Dependencies& dependencies, const Placement& placement) {
  std::vector<int64_t> ends(dependencies.all().size());
  std::vector<Event> events;
  for (const int64_t index : dependencies.order()) {
    const Dependency& node = dependencies.all()[static_cast<size_t>(index)];
    int64_t start = 0;
    for (const int64_t before : {node.before, node.other}) {
      if (before >= 0) start = std::max(start, ends[static_cast<size_t>(before)]);
    }
    const int64_t units = node.action.kind == kBackward ? 2 : is_compute(node.action.kind) ? 1 : 0;
    ends[static_cast<size_t>(index)] = start + units;
    events.push_back({start, true, index});
    if (sent_after(node.action, placement)) events.push_back({start + units, false, index});
  }
  std::ranges::sort(events);
  return events;
}

void lower_rendezvous(const ActionLists& lists, ActionLists& out) {
  const Dependencies dependencies(lists, Sends::kRendezvous);
  for (const Event& event : events_of(dependencies, lists.placement)) {
    const Dependency& node = dependencies.all()[static_cast<size_t>(event.index)];
    auto& own = out.ranks[static_cast<size_t>(node.rank)];
    if (event.starts) {
      own.push_back(node.action);
      continue;
    }
    const Action sent = *sent_after(node.action, lists.placement);
    const Action received = partner_of(sent);
    own.push_back(sent);
    out.ranks[static_cast<size_t>(lists.placement.rank_of(received.stage))].push_back(received);
  }
}

ActionLists without_actions(const ActionLists& lists) {
  return {
      lists.placement, lists.micro_batches, std::vector<std::vector<Action>>(lists.ranks.size())};
}

}  // namespace

ActionLists lower(const ActionLists& lists, Sends sends) {
  require_runnable(lists);
  if (lists.has_messages())
    throw usage_error({.refused = "messages cannot be added to a pipeline schedule",
                       .rule = "it has none yet",
                       .hint = "lower the lists that hold the computation alone"});
  ActionLists out = without_actions(lists);
  sends == Sends::kBuffered ? lower_buffered(lists, out) : lower_rendezvous(lists, out);
  require_runnable(
      out, {.sends = sends});  // tags keep order: refused where a schedule swaps micro-batches
  return out;
}

ActionLists with_averages(const ActionLists& lists) {
  require_runnable(lists);
  ActionLists out = without_actions(lists);
  std::vector<int64_t> open(static_cast<size_t>(lists.placement.stages()), lists.micro_batches);
  for (size_t rank = 0; rank < lists.ranks.size(); ++rank) {
    for (const Action& action : lists.ranks[rank]) {
      if (action.kind == kAverageGradients) continue;
      out.ranks[rank].push_back(action);
      if ((action.kind == kBackward || action.kind == kBackwardWeight) &&
          --open[static_cast<size_t>(action.stage)] == 0)
        out.ranks[rank].push_back({kAverageGradients, action.stage, -1});
    }
  }
  return out;
}

}  // namespace muster::pipeline
