#include "muster/pipeline/simulate/waiting_letters.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace muster::pipeline {
namespace {

using enum ActionKind;

/// The use of a gradient, whole or for both halves: stage, micro-batch.
using LetterKey = std::pair<int64_t, int64_t>;

struct WaitingLetter {
  LetterKey use;
  double bytes = 0;
};

/// Which letter an action takes.
std::optional<LetterKey> use_of(const Action& action) {
  switch (action.kind) {
    case kBackward:
    case kBackwardInput:
    case kReceiveGradient:
      return LetterKey{action.stage, action.micro_batch};
    default:
      return {};
  }
}

/// The letter that an action makes.
std::optional<WaitingLetter> letter_of(const Action& action, std::span<const StageBytes> stages) {
  const StageBytes& bytes = stages[static_cast<size_t>(action.stage)];
  const bool goes_back = action.kind == kBackward || action.kind == kBackwardInput;
  if (goes_back && action.stage > 0 && bytes.gradient > 0)
    return WaitingLetter{{action.stage - 1, action.micro_batch}, bytes.gradient};
  return {};
}

/// When each letter is taken.
std::map<LetterKey, double> times_of_uses(const Timeline& timeline) {
  std::map<LetterKey, double> times;
  for (const auto& spans : timeline.ranks) {
    for (const Span& span : spans) {
      if (const auto use = use_of(span.action))
        times.emplace(*use, span.start_s);  // the first counts
    }
  }
  return times;
}

double peak_of_rank(const std::vector<Span>& spans,
                    std::span<const StageBytes> stages,
                    const Placement& placement,
                    int64_t rank,
                    const std::map<LetterKey, double>& taken) {
  HeldBytes held(stages);
  std::vector<WaitingLetter> waiting;
  double peak = 0;
  for (const Span& span : spans) {
    const auto mine = use_of(span.action);
    // On the same rank the list says what comes first, whatever the times.
    const auto waits_at = [&](double now) {
      double bytes = 0;
      std::erase_if(waiting, [&](const WaitingLetter& letter) {
        if (placement.rank_of(letter.use.first) == rank) return letter.use == mine;
        const auto time = taken.find(letter.use);
        return time != taken.end() && time->second <= now;
      });
      for (const WaitingLetter& letter : waiting) bytes += letter.bytes;
      return bytes;
    };
    peak = std::max(peak, held.begin(span.action) + waits_at(span.start_s));
    const double left = held.end(span.action);
    if (const auto letter = letter_of(span.action, stages)) waiting.push_back(*letter);
    peak = std::max(peak, left + waits_at(span.end_s));
  }
  return peak;
}

}  // namespace

std::vector<double> peak_bytes(const ActionLists& lists,
                               std::span<const StageBytes> stages,
                               const Timeline& timeline) {
  const std::map<LetterKey, double> taken = times_of_uses(timeline);
  std::vector<double> peaks;
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank)
    peaks.push_back(peak_of_rank(
        timeline.ranks[rank], stages, lists.placement, static_cast<int64_t>(rank), taken));
  return peaks;
}

}  // namespace muster::pipeline
