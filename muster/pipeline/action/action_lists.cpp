#include "muster/pipeline/action/action_lists.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::pipeline {
namespace {

constexpr size_t kMostActions = 1'000'000;

std::vector<Action> parse_row(std::string_view line) {
  std::vector<Action> out;
  for (const std::string& cell : split(line, ',')) {
    const std::string_view text = trim(cell);
    if (!text.empty()) out.push_back(parse_action(text));
  }
  return out;
}

/// Each stage where it is computed.
Placement placement_of(const std::vector<std::vector<Action>>& ranks) {
  std::map<int64_t, int64_t> rank_of;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const Action& action : ranks[rank]) {
      if (!is_compute(action.kind)) continue;
      const auto [at, is_new] = rank_of.emplace(action.stage, rank);
      if (!is_new && at->second != static_cast<int64_t>(rank))
        throw usage_error({.refused = concat("stage ", action.stage, " is on two ranks"),
                           .rule = "each stage is on one rank",
                           .value = concat(at->second, " and ", rank)});
    }
  }
  std::vector<int64_t> out;
  for (const auto& [stage, rank] : rank_of) {
    if (stage != static_cast<int64_t>(out.size()))
      throw usage_error({.refused = concat("stage ", out.size(), " is on no rank"),
                         .rule = "stages are 0, 1, 2, …, and each has its forward"});
    out.push_back(rank);
  }
  return Placement(std::move(out));
}

}  // namespace

bool ActionLists::has_messages() const {
  return std::ranges::any_of(ranks, [](const auto& actions) {
    return std::ranges::any_of(actions, [](const Action& a) { return is_message(a.kind); });
  });
}

bool ActionLists::splits_backward() const {
  return std::ranges::any_of(ranks, [](const auto& actions) {
    return std::ranges::any_of(
        actions, [](const Action& a) { return a.kind == ActionKind::kBackwardInput; });
  });
}

std::string to_csv(const ActionLists& lists) {
  std::string out;
  for (const auto& actions : lists.ranks) {
    for (size_t i = 0; i < actions.size(); ++i) out += (i > 0 ? "," : "") + to_text(actions[i]);
    out += '\n';
  }
  return out;
}

ActionLists parse_csv(std::string_view text) {
  ActionLists lists{.micro_batches = 0};
  size_t count = 0;
  for (const std::string& line : split(text, '\n')) {
    if (trim(line).empty()) continue;
    lists.ranks.push_back(parse_row(line));
    count += lists.ranks.back().size();
    if (count > kMostActions)
      throw usage_error({.refused = "a schedule is too long",
                         .rule = concat("it has at most ", kMostActions, " actions")});
    for (const Action& action : lists.ranks.back())
      lists.micro_batches = std::max(lists.micro_batches, action.micro_batch + 1);
  }
  lists.placement = placement_of(lists.ranks);
  if (lists.placement.ranks() != static_cast<int64_t>(lists.ranks.size()))
    throw usage_error({.refused = "a rank computes nothing",
                       .rule = "each rank of a pipeline has at least one stage",
                       .value = concat("rank ", lists.ranks.size() - 1)});
  return lists;
}

double HeldBytes::begin(const Action& action) {
  const StageBytes& bytes = of(action);
  if (action.kind == ActionKind::kForward) held_ += bytes.activation;
  if (action.kind == ActionKind::kBackwardInput)
    return held_ + bytes.input_rise.value_or(bytes.caught + bytes.work);
  return held_ + (is_compute(action.kind) ? bytes.work : 0);
}

double HeldBytes::end(const Action& action) {
  const StageBytes& bytes = of(action);
  if (action.kind == ActionKind::kBackward) held_ -= bytes.activation;
  if (action.kind == ActionKind::kBackwardInput)
    held_ += bytes.caught - (bytes.activation - bytes.kept);
  if (action.kind == ActionKind::kBackwardWeight) held_ -= bytes.kept + bytes.caught;
  return held_;
}

std::vector<double> peak_bytes(const ActionLists& lists, std::span<const StageBytes> stages) {
  std::vector<double> peaks;
  for (const auto& actions : lists.ranks) {
    HeldBytes held(stages);
    double peak = 0;
    for (const Action& action : actions) {
      peak = std::max(peak, held.begin(action));
      held.end(action);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

std::vector<int64_t> peak_in_flight(const ActionLists& lists) {
  const std::vector<StageBytes> ones(static_cast<size_t>(lists.placement.stages()));
  std::vector<int64_t> out;
  for (const double peak : peak_bytes(lists, ones)) out.push_back(std::llround(peak));
  return out;
}

}  // namespace muster::pipeline
