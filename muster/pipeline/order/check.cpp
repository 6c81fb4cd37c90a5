#include "muster/pipeline/order/check.h"

#include <algorithm>
#include <array>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::pipeline {
namespace {

using enum ActionKind;
using Found = std::optional<Fault>;

/// Goes through the lists of all ranks and remembers where each action stands.
class Checker {
 public:
  explicit Checker(const ActionLists& lists) : lists_(lists), placement_(lists.placement) {}

  Found run() {
    if (Found fault = sizes()) return fault;
    has_messages_ = lists_.has_messages();
    at_.assign(static_cast<size_t>(kActionKinds * placement_.stages() * (lists_.micro_batches + 1)),
               -1);
    backwards_.assign(static_cast<size_t>(placement_.stages()), 0);
    for (size_t rank = 0; rank < lists_.ranks.size(); ++rank) {
      for (size_t i = 0; i < lists_.ranks[rank].size(); ++i) {
        if (Found fault = next(static_cast<int64_t>(rank), static_cast<int64_t>(i))) return fault;
      }
    }
    if (Found fault = missing()) return fault;
    return has_messages_ ? out_of_order() : Found{};
  }

 private:
  Found sizes() const {
    size_t actions = 0;
    for (const auto& list : lists_.ranks) actions += list.size();
    const auto cells = static_cast<double>(placement_.stages()) * lists_.micro_batches;
    if (static_cast<int64_t>(lists_.ranks.size()) != placement_.ranks() ||
        placement_.stages() == 0) {
      return Fault{.reason = concat("has no place: there are ",
                                    lists_.ranks.size(),
                                    " lists for ",
                                    placement_.ranks(),
                                    " ranks")};
    }
    if (lists_.micro_batches < 1) return Fault{.reason = "cannot be: there are no micro-batches"};
    if (cells > static_cast<double>(actions)) {
      return Fault{.reason = concat("or another is missing: ",
                                    actions,
                                    " actions are too few for ",
                                    placement_.stages(),
                                    " stages and ",
                                    lists_.micro_batches,
                                    " micro-batches")};
    }
    return {};
  }

  int64_t& at(const Action& action) {
    const int64_t row = static_cast<int64_t>(action.kind) * placement_.stages() + action.stage;
    return at_[static_cast<size_t>(row * (lists_.micro_batches + 1) + action.micro_batch + 1)];
  }
  bool seen(ActionKind kind, const Action& of) { return at({kind, of.stage, of.micro_batch}) >= 0; }

  /// Whether the stage takes something of that kind from another rank.
  bool crosses(ActionKind kind, int64_t stage) const {
    if (kind == kReceiveActivation || kind == kSendGradient)
      return stage > 0 && placement_.crosses_after(stage - 1);
    return placement_.crosses_after(stage);
  }

  Found next(int64_t rank, int64_t position) {
    const Action& action = lists_.ranks[static_cast<size_t>(rank)][static_cast<size_t>(position)];
    const std::string reason = why_not(rank, action);
    if (!reason.empty()) return Fault{rank, position, action, reason};
    at(action) = position;
    if (action.kind == kBackward || action.kind == kBackwardWeight)
      ++backwards_[static_cast<size_t>(action.stage)];
    return {};
  }

  std::string why_not(int64_t rank, const Action& action) {
    const bool averages = action.kind == kAverageGradients;
    if (action.stage < 0 || action.stage >= placement_.stages())
      return concat("has a stage that is none: there are ", placement_.stages());
    if (placement_.rank_of(action.stage) != rank)
      return concat("is not this rank's: the stage is on rank ", placement_.rank_of(action.stage));
    if (averages ? action.micro_batch != -1
                 : action.micro_batch < 0 || action.micro_batch >= lists_.micro_batches)
      return averages ? "is of all micro-batches, and names one"
                      : concat("has a micro-batch that is none: there are ", lists_.micro_batches);
    if (at(action) >= 0) return "comes twice";
    return is_message(action.kind) ? why_no_message(action) : why_not_yet(action);
  }

  std::string why_no_message(const Action& action) {
    if (!crosses(action.kind, action.stage))
      return "goes nowhere: the stage's neighbour is on the same rank, or there is none";
    if (action.kind == kSendActivation && !seen(kForward, action))
      return "comes before the forward that makes it";
    if (action.kind == kSendGradient && !seen(kBackward, action) && !seen(kBackwardInput, action))
      return "comes before the backward that makes it";
    if (action.kind == kReceiveActivation && seen(kForward, action))
      return "comes after the forward that needs it";
    if (action.kind == kReceiveGradient &&
        (seen(kBackward, action) || seen(kBackwardInput, action)))
      return "comes after the backward that needs it";
    return "";
  }

  std::string why_not_yet(const Action& action) {
    const auto not_received = [&](ActionKind kind) {
      return has_messages_ && crosses(kind, action.stage) && !seen(kind, action);
    };
    switch (action.kind) {
      case kForward:
        return not_received(kReceiveActivation) ? "comes before its input is received" : "";
      case kBackward:
      case kBackwardInput:
        if (!seen(kForward, action)) return "comes before its forward";
        if (seen(action.kind == kBackward ? kBackwardInput : kBackward, action) ||
            (action.kind == kBackward && seen(kBackwardWeight, action)))
          return "is a second backward of this micro-batch";
        return not_received(kReceiveGradient) ? "comes before its gradient is received" : "";
      case kBackwardWeight:
        return seen(kBackwardInput, action) ? "" : "comes before the backward of the input";
      default:
        return backwards_[static_cast<size_t>(action.stage)] < lists_.micro_batches
                   ? "comes before the stage's last backward"
                   : "";
    }
  }

  Found is_missing(ActionKind kind, int64_t stage, int64_t micro_batch) const {
    return Fault{placement_.rank_of(stage), -1, {kind, stage, micro_batch}, "is missing"};
  }

  Found missing() {
    const bool average = seen(kAverageGradients, {kForward, 0, -1});
    for (int64_t stage = 0; stage < placement_.stages(); ++stage) {
      for (int64_t m = 0; m < lists_.micro_batches; ++m) {
        if (Found fault = missing_of({kForward, stage, m})) return fault;
      }
      if (average != seen(kAverageGradients, {kForward, stage, -1}))
        return is_missing(kAverageGradients, average ? stage : 0, -1);
    }
    return {};
  }

  Found missing_of(const Action& of) {
    if (!seen(kForward, of)) return is_missing(kForward, of.stage, of.micro_batch);
    if (!seen(kBackward, of) && !seen(kBackwardWeight, of))
      return is_missing(
          seen(kBackwardInput, of) ? kBackwardWeight : kBackward, of.stage, of.micro_batch);
    for (const ActionKind kind :
         {kSendActivation, kReceiveActivation, kSendGradient, kReceiveGradient}) {
      if (has_messages_ && crosses(kind, of.stage) && !seen(kind, of))
        return is_missing(kind, of.stage, of.micro_batch);
    }
    return {};
  }

  /// The receives of each boundary and direction against the sends.
  Found out_of_order() {
    for (int64_t stage = 0; stage + 1 < placement_.stages(); ++stage) {
      if (!placement_.crosses_after(stage)) continue;
      for (const ActionKind kind : {kReceiveActivation, kReceiveGradient}) {
        const int64_t to = kind == kReceiveActivation ? stage + 1 : stage;
        if (Found fault = out_of_order(kind, to)) return fault;
      }
    }
    return {};
  }

  std::vector<Action> in_order(ActionKind kind, int64_t stage) const {
    std::vector<Action> out;
    for (const Action& action : lists_.ranks[static_cast<size_t>(placement_.rank_of(stage))]) {
      if (action.kind == kind && action.stage == stage) out.push_back(action);
    }
    return out;
  }

  Found out_of_order(ActionKind kind, int64_t stage) {
    const Action partner = partner_of({kind, stage, 0});
    const auto received = in_order(kind, stage), sent = in_order(partner.kind, partner.stage);
    for (size_t i = 0; i < received.size(); ++i) {
      if (received[i].micro_batch == sent[i].micro_batch) continue;
      return Fault{
          placement_.rank_of(stage),
          at(received[i]),
          received[i],
          concat("is received in another order than it is sent: next comes ", to_text(sent[i]))};
    }
    return {};
  }

  const ActionLists& lists_;
  const Placement& placement_;
  bool has_messages_ = false;
  std::vector<int64_t> at_;         // position by kind, stage and micro-batch; -1: not seen
  std::vector<int64_t> backwards_;  // B and W seen, by stage
};

Found too_many_in_flight(const ActionLists& lists, const std::vector<int64_t>& most) {
  for (size_t rank = 0; rank < lists.ranks.size() && rank < most.size(); ++rank) {
    int64_t held = 0;
    for (size_t i = 0; i < lists.ranks[rank].size(); ++i) {
      const Action& action = lists.ranks[rank][i];
      if (action.kind == kBackward || action.kind == kBackwardWeight) --held;
      if (action.kind != kForward || ++held <= most[rank]) continue;
      return Fault{static_cast<int64_t>(rank),
                   static_cast<int64_t>(i),
                   action,
                   concat("is one activation too many: the rank may hold ", most[rank])};
    }
  }
  return {};
}

/// Who waits for whom, where a circle goes from rank to rank.
Found deadlock(const ActionLists& lists, Sends sends) {
  const Dependencies dependencies(lists, sends);
  const auto circle = dependencies.circle();
  if (circle.empty()) return {};
  const auto node = [&](size_t i) {
    return dependencies.all()[static_cast<size_t>(circle[i % circle.size()])];
  };
  Dependency first = node(0);
  std::vector<std::string> waits;
  for (size_t i = 0; i < circle.size(); ++i) {
    const Dependency from = node(i), to = node(i + 1);
    // Within a rank each waits for what stands before it; but for one that needs what comes later.
    if (from.rank == to.rank && to.position < from.position) continue;
    if (waits.empty()) first = from;
    waits.push_back(concat("rank ",
                           from.rank,
                           " at ",
                           to_text(from.action),
                           " for ",
                           to_text(to.action),
                           " of rank ",
                           to.rank));
  }
  return Fault{first.rank,
               first.position,
               first.action,
               concat("never runs: ranks wait in a circle",
                      sends == Sends::kRendezvous ? ", as a send waits for its receiver: " : ": ",
                      join(waits, ", "))};
}

}  // namespace

std::string Fault::text() const {
  return concat("rank ",
                rank,
                position < 0 ? std::string() : concat(", action ", position),
                ": ",
                describe(action),
                " ",
                reason);
}

Found find_fault(const ActionLists& lists, const CheckOptions& options) {
  if (Found fault = Checker(lists).run()) return fault;
  if (Found fault = deadlock(lists, options.sends)) return fault;
  return too_many_in_flight(lists, options.in_flight);
}

void require_runnable(const ActionLists& lists, const CheckOptions& options) {
  const Found fault = find_fault(lists, options);
  if (!fault) return;
  throw usage_error(
      {.refused = "a pipeline schedule cannot be carried out", .rule = fault->text()});
}

}  // namespace muster::pipeline
