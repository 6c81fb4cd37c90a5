#include "muster/tune/core/kept_checkpoints.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

namespace muster::tune {

void KeptCheckpoints::add(const Event& event) {
  if (keep_ == 0 || event.trial < 0) return;
  const auto come_to = [&](const std::string& checkpoint) {
    if (checkpoint.empty()) return;
    OfTrial& trial = trials_[event.trial];
    set_next(trial, checkpoint);
    add_own(trial, checkpoint);
  };
  if (const auto* reported = std::get_if<Reported>(&event.what)) {
    come_to(reported->report.checkpoint);
  } else if (const auto* saved = std::get_if<CheckpointSaved>(&event.what)) {
    come_to(saved->checkpoint);
  } else if (const auto* started = std::get_if<AttemptStarted>(&event.what)) {
    set_next(trials_[event.trial], started->from_checkpoint);
  } else if (const auto* ended = std::get_if<AttemptEnded>(&event.what)) {
    if (is_over(ended->then)) end(trials_[event.trial]);
  }
}

void KeptCheckpoints::add_own(OfTrial& trial, const std::string& path) {
  if (const auto again = std::ranges::find(trial.own, path); again != trial.own.end()) {
    std::rotate(again, again + 1, trial.own.end());  // written anew: the newest
    return;
  }
  use(path);
  trial.own.push_back(path);
  if (static_cast<int64_t>(trial.own.size()) <= keep_) return;
  release(trial.own.front());
  trial.own.pop_front();
}

void KeptCheckpoints::set_next(OfTrial& trial, const std::string& path) {
  const std::string before = std::exchange(trial.next, path);
  use(path);
  release(before);
}

void KeptCheckpoints::end(OfTrial& trial) {
  const bool is_own = std::ranges::find(trial.own, trial.next) != trial.own.end();
  if (!trial.next.empty() && !is_own) add_own(trial, trial.next);
  set_next(trial, "");
}

void KeptCheckpoints::use(const std::string& path) {
  if (path.empty()) return;
  ++uses_[path];
  needless_.erase(path);
}

void KeptCheckpoints::release(const std::string& path) {
  const auto found = uses_.find(path);
  if (found == uses_.end() || --found->second > 0) return;
  uses_.erase(found);
  needless_.insert(path);
}

std::vector<std::string> KeptCheckpoints::take_needless() {
  std::vector<std::string> paths;
  for (const std::string& path : std::exchange(needless_, {})) {
    const auto within = uses_.lower_bound(path + '/');
    if (within == uses_.end() || !within->first.starts_with(path + '/')) paths.push_back(path);
  }
  return paths;
}

void KeptCheckpoints::stop() { *this = KeptCheckpoints(0); }

}  // namespace muster::tune
