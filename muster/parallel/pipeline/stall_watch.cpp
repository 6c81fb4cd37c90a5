#include "muster/parallel/pipeline/stall_watch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {

StallWatch::StallWatch(std::vector<c10::Device> devices,
                       std::chrono::milliseconds timeout,
                       Clock::duration most)
    : devices_(std::move(devices)), timeout_(timeout), most_(most), seen_(devices_.size()) {}

void StallWatch::count_time(const std::vector<Spot>& ranks, Clock::time_point now) {
  const Clock::duration passed = std::min(now - looked_.value_or(now), most_);
  looked_ = now;
  for (size_t i = 0; i < seen_.size(); ++i) {
    const Spot& spot = ranks[i];
    Seen& rank = seen_[i];
    rank.ended = spot.has_begun && spot.action == nullptr;
    rank.lasts += passed;
    if (spot.action == nullptr || spot.action == rank.spot.action) continue;
    rank.spot = spot;
    rank.lasts = std::min(now - spot.since, passed);
  }
}

std::exception_ptr StallWatch::look(const std::vector<Spot>& ranks, Clock::time_point now) {
  count_time(ranks, now);
  const auto waits = [](const Seen& rank) {
    return rank.spot.action != nullptr && is_receive(rank.spot.action->kind);
  };
  const bool all_wait =
      std::ranges::all_of(seen_, [&](const Seen& rank) { return rank.ended || waits(rank); });
  const Seen* worst = nullptr;
  for (const Seen& rank : seen_) {
    if (rank.ended || (waits(rank) && !all_wait) || rank.lasts <= timeout_) continue;
    if (worst == nullptr || rank.lasts > worst->lasts) worst = &rank;
  }
  if (worst == nullptr) return nullptr;
  const auto number = static_cast<size_t>(worst - seen_.data());
  const pipeline::Action* action = worst->spot.action;
  const std::string what = action == nullptr ? "its first action" : describe(*action);
  return std::make_exception_ptr(environment_error(
      {.refused = concat("rank ", number, " (", devices_[number], "): ", what),
       .rule = concat("a stall: it has not ",
                      action == nullptr ? "begun" : "ended",
                      " within ",
                      timeout_.count(),
                      " ms"),
       .hint = "the step was given up; until this action is over the next one is refused"}));
}

}  // namespace muster::parallel
