#include "muster/pipeline/order/letters_taken.h"

#include <algorithm>
#include <map>
#include <utility>

#include "muster/pipeline/order/dependencies.h"

namespace muster::pipeline {
namespace {

/// By rank: how many of its actions are over.
using Clock = std::vector<int64_t>;

/// Of each action, what is over for certain when it is.
std::vector<Clock> clocks_of(const Dependencies& graph, size_t ranks) {
  std::vector<Clock> clocks(graph.all().size(), Clock(ranks, 0));
  for (const int64_t index : graph.order()) {
    const Dependency& node = graph.all()[static_cast<size_t>(index)];
    Clock& clock = clocks[static_cast<size_t>(index)];
    for (const int64_t earlier : {node.before, node.other}) {
      if (earlier < 0) continue;
      const Clock& theirs = clocks[static_cast<size_t>(earlier)];
      for (size_t rank = 0; rank < ranks; ++rank) clock[rank] = std::max(clock[rank], theirs[rank]);
    }
    int64_t& own = clock[static_cast<size_t>(node.rank)];
    own = std::max(own, node.position + 1);
  }
  return clocks;
}

}  // namespace

std::vector<int64_t> surely_taken(const ActionLists& lists, int64_t rank) {
  const Dependencies graph(lists, Sends::kBuffered);
  const std::vector<Clock> clocks = clocks_of(graph, lists.ranks.size());
  const auto& list = lists.ranks[static_cast<size_t>(rank)];
  std::vector<const Clock*> mine(list.size());  // behind each position
  std::map<std::pair<ActionKind, std::pair<int64_t, int64_t>>, const Dependency*> receives;
  for (size_t i = 0; i < graph.all().size(); ++i) {
    const Dependency& node = graph.all()[i];
    if (node.rank == rank) mine[static_cast<size_t>(node.position)] = &clocks[i];
    if (is_receive(node.action.kind))
      receives[{node.action.kind, {node.action.stage, node.action.micro_batch}}] = &node;
  }
  std::vector<int64_t> taken(list.size(), -1);
  for (size_t i = 0; i < list.size(); ++i) {
    if (!is_send(list[i].kind)) continue;
    const Action receive = partner_of(list[i]);
    const Dependency& there = *receives.at({receive.kind, {receive.stage, receive.micro_batch}});
    const auto known =
        std::find_if(mine.begin() + static_cast<int64_t>(i), mine.end(), [&](const Clock* clock) {
          return (*clock)[static_cast<size_t>(there.rank)] > there.position;
        });
    taken[i] = std::min(std::ssize(list), known - mine.begin() + 1);
  }
  return taken;
}

}  // namespace muster::pipeline
