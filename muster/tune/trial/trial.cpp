#include "muster/tune/trial/trial.h"

#include <algorithm>

namespace muster::tune {

std::string_view ray_name(TrialState state) {
  switch (state) {
    case TrialState::kPending:
      return "PENDING";
    case TrialState::kRunning:
      return "RUNNING";
    case TrialState::kPaused:
      return "PAUSED";
    case TrialState::kComplete:
    case TrialState::kPruned:
      return "TERMINATED";
    case TrialState::kFailed:
      return "ERROR";
  }
  return "";
}

std::string_view optuna_name(TrialState state) {
  switch (state) {
    case TrialState::kPending:
      return "WAITING";
    case TrialState::kRunning:
    case TrialState::kPaused:  // Optuna knows no pause
      return "RUNNING";
    case TrialState::kComplete:
      return "COMPLETE";
    case TrialState::kPruned:
      return "PRUNED";
    case TrialState::kFailed:
      return "FAIL";
  }
  return "";
}

std::string_view name_of(Failure failure) {
  switch (failure) {
    case Failure::kNone:
      return "none";
    case Failure::kCrash:
      return "crash";
    case Failure::kOutOfMemory:
      return "oom";
    case Failure::kNan:
      return "nan";
    case Failure::kTimeout:
      return "timeout";
    case Failure::kLost:
      return "lost";
    case Failure::kInterrupted:
      return "interrupted";
  }
  return "";
}

std::string_view name_of(Action action) {
  switch (action) {
    case Action::kContinue:
      return "continue";
    case Action::kPause:
      return "pause";
    case Action::kStop:
      return "stop";
  }
  return "";
}

const double* find_metric(const Metrics& metrics, std::string_view name) {
  const auto at = std::find_if(
      metrics.begin(), metrics.end(), [&](const auto& metric) { return metric.first == name; });
  return at == metrics.end() ? nullptr : &at->second;
}

}  // namespace muster::tune
