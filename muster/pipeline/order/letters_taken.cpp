#include "muster/pipeline/order/letters_taken.h"

#include <algorithm>

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
    clock[static_cast<size_t>(node.rank)] = node.position + 1;
  }
  return clocks;
}

}  // namespace

std::vector<int64_t> surely_taken(const ActionLists& lists, int64_t rank) {
  const Dependencies graph(lists, Sends::kBuffered);
  const std::vector<Clock> clocks = clocks_of(graph, lists.ranks.size());
  const auto length = std::ssize(lists.ranks[static_cast<size_t>(rank)]);
  std::vector<const Clock*> mine(static_cast<size_t>(length));  // behind each position
  for (size_t i = 0; i < graph.all().size(); ++i) {
    const Dependency& node = graph.all()[i];
    if (node.rank == rank) mine[static_cast<size_t>(node.position)] = &clocks[i];
  }
  std::vector<int64_t> taken(static_cast<size_t>(length), -1);
  for (const Dependency& receive : graph.all()) {
    if (!is_receive(receive.action.kind)) continue;
    const Dependency& send = graph.all()[static_cast<size_t>(receive.other)];
    if (send.rank != rank) continue;
    const auto known =
        std::find_if(mine.begin() + send.position, mine.end(), [&](const Clock* clock) {
          return (*clock)[static_cast<size_t>(receive.rank)] > receive.position;
        });
    taken[static_cast<size_t>(send.position)] = std::min(length, known - mine.begin() + 1);
  }
  return taken;
}

}  // namespace muster::pipeline
