#include "muster/pipeline/order/dependencies.h"

#include <algorithm>
#include <array>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::pipeline {
namespace {

bool starts_backward(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput;
}

}  // namespace

Dependencies::Dependencies(const ActionLists& lists, Sends sends)
    : stages_(lists.placement.stages()), micro_batches_(lists.micro_batches) {
  index_.assign(static_cast<size_t>(kActionKinds * stages_ * (micro_batches_ + 1)), -1);
  add_nodes(lists);
  for (Dependency& node : nodes_) connect(lists, sends, node);
  sort();
}

int64_t& Dependencies::index_of(const Action& action) {
  const int64_t row = static_cast<int64_t>(action.kind) * stages_ + action.stage;
  return index_.at(static_cast<size_t>(row * (micro_batches_ + 1) + action.micro_batch + 1));
}

void Dependencies::add_nodes(const ActionLists& lists) {
  for (size_t rank = 0; rank < lists.ranks.size(); ++rank) {
    const auto& actions = lists.ranks[rank];
    for (size_t i = 0; i < actions.size(); ++i) {
      const auto index = static_cast<int64_t>(nodes_.size());
      index_of(actions[i]) = index;
      nodes_.push_back({.action = actions[i],
                        .rank = static_cast<int64_t>(rank),
                        .position = static_cast<int64_t>(i),
                        .before = i > 0 ? index - 1 : -1});
    }
  }
}

void Dependencies::connect(const ActionLists& lists, Sends sends, Dependency& node) {
  const auto [kind, stage, micro_batch] = node.action;
  const auto wait_for = [&](const Action& other) {
    node.other = index_of(other);
    if (node.other < 0)
      throw internal_error({.refused = concat(describe(node.action), " waits for no action")});
    node.sender_stage = other.stage;
  };
  const auto from_neighbour = [&](const Action& other, const Action& received, Transfer transfer) {
    if (index_of(received) >= 0) return;  // it stands before in this list, and waits
    wait_for(other);
    if (lists.placement.rank_of(other.stage) != node.rank) node.lag = transfer;
  };
  if (kind == ActionKind::kForward && stage > 0) {
    from_neighbour({ActionKind::kForward, stage - 1, micro_batch},
                   {ActionKind::kReceiveActivation, stage, micro_batch},
                   Transfer::kActivation);
  } else if (starts_backward(kind) && stage + 1 < stages_) {
    const Action whole{ActionKind::kBackward, stage + 1, micro_batch};
    const Action half{ActionKind::kBackwardInput, stage + 1, micro_batch};
    from_neighbour(index_of(whole) >= 0 ? whole : half,
                   {ActionKind::kReceiveGradient, stage, micro_batch},
                   Transfer::kGradient);
  } else if (is_message(kind) && (is_receive(kind) || sends == Sends::kRendezvous)) {
    const Action partner = partner_of(node.action);
    const bool forward =
        kind == ActionKind::kSendActivation || kind == ActionKind::kReceiveActivation;
    wait_for(partner);
    node.sender_stage = is_send(kind) ? stage : partner.stage;
    (sends == Sends::kRendezvous ? node.work : node.lag) =
        forward ? Transfer::kActivation : Transfer::kGradient;
    // Both begin when both ranks are there: each waits for what stands before the other.
    if (sends == Sends::kRendezvous) node.other = nodes_[static_cast<size_t>(node.other)].before;
  }
}

void Dependencies::sort() {
  std::vector<int64_t> open(nodes_.size());
  std::vector<std::vector<int64_t>> after(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (const int64_t before : {nodes_[i].before, nodes_[i].other}) {
      if (before < 0) continue;
      ++open[i];
      after[static_cast<size_t>(before)].push_back(static_cast<int64_t>(i));
    }
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (open[i] == 0) order_.push_back(static_cast<int64_t>(i));
  }
  for (size_t done = 0; done < order_.size(); ++done) {
    for (const int64_t next : after[static_cast<size_t>(order_[done])]) {
      if (--open[static_cast<size_t>(next)] == 0) order_.push_back(next);
    }
  }
}

std::vector<int64_t> Dependencies::circle() const {
  if (!has_deadlock()) return {};
  std::vector<bool> ran(nodes_.size());
  for (const int64_t index : order_) ran[static_cast<size_t>(index)] = true;
  const auto stuck = [&](int64_t index) { return index >= 0 && !ran[static_cast<size_t>(index)]; };
  // From any that never runs along what it waits for and that never runs either: it must repeat.
  auto at = static_cast<int64_t>(std::ranges::find(ran, false) - ran.begin());
  std::vector<int64_t> path;
  while (std::ranges::find(path, at) == path.end()) {
    path.push_back(at);
    const Dependency& node = nodes_[static_cast<size_t>(at)];
    at = stuck(node.other) ? node.other : node.before;
  }
  path.erase(path.begin(), std::ranges::find(path, at));
  return path;
}

}  // namespace muster::pipeline
